/* Functions of one float32 number, without libm. They give the same bits as glowembed/law/floatmath.py on every core.
 *
 * Every line is a sequence of float32 operations that are never contracted (-ffp-contract=off), so hardware and
 * software arithmetic agree. Errors are below 4 units in the last place; that of erf is below 6e-7.
 */
#ifndef GE_FLOAT_H
#define GE_FLOAT_H

#include <stdint.h>
#include <string.h>

static inline float ge_float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t ge_bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* NaN stays NaN. */
static inline float ge_clamp_f32(float x, float lo, float hi) {
    return x < lo ? lo : (x > hi ? hi : x);
}

static inline float ge_abs_f32(float x) {
    return ge_float_of(ge_bits_of(x) & 0x7FFFFFFFu);
}

/* 2^n for -126 <= n <= 127. */
static inline float ge_pow2_f32(int32_t n) {
    return ge_float_of((uint32_t)(n + 127) << 23);
}

/* e^x = 2^n * e^r with |r| <= ln(2) / 2. The result is 0 below -104 and infinity above 89. */
static inline float ge_exp_f32(float x) {
    x = ge_clamp_f32(x, -104.0f, 89.0f);
    if (x != x) {
        return x;
    }
    const float scaled = x * 1.44269504f;
    const int32_t n = (int32_t)(scaled < 0.0f ? scaled - 0.5f : scaled + 0.5f);
    const float m = (float)n;
    float r = x - m * 0.693359375f;
    r = r - m * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const int32_t half = n / 2;
    return p * ge_pow2_f32(half) * ge_pow2_f32(n - half);
}

/* ln(x), where x = 2^n * m with sqrt(1/2) <= m < sqrt(2). ln(0) is minus infinity; for x < 0 the result is NaN. */
static inline float ge_log_f32(float x) {
    if (!(x > 0.0f) || x > 3.4028235e38f) {
        return x > 0.0f ? x : ge_float_of(x >= 0.0f ? 0xFF800000u : 0x7FC00000u);
    }
    const int32_t tiny = x < 1.17549435e-38f;
    const uint32_t bits = ge_bits_of(tiny ? x * 33554432.0f : x);
    int32_t n = (int32_t)(bits >> 23) - 126 - (tiny ? 25 : 0);
    float m = ge_float_of((bits & 0x007FFFFFu) | 0x3F000000u);
    if (m < 0.707106781f) {
        m = m + m;
        n = n - 1;
    }
    const float f = m - 1.0f;
    const float z = f * f;
    float p = 7.0376836292e-2f;
    p = p * f + -1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f + -1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f + -1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f + -2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    const float e = (float)n;
    float y = f * z * p;
    y = y + e * -2.12194440e-4f;
    y = y + -0.5f * z;
    y = f + y;
    return y + e * 0.693359375f;
}

static inline float ge_tanh_f32(float x) {
    const float a = ge_abs_f32(x);
    if (a < 0.625f) {
        const float z = x * x;
        float p = -5.70498872745e-3f;
        p = p * z + 2.06390887954e-2f;
        p = p * z + -5.37397155531e-2f;
        p = p * z + 1.33314422036e-1f;
        p = p * z + -3.33332819422e-1f;
        return p * z * x + x;
    }
    const float y = 1.0f - 2.0f / (ge_exp_f32(a + a) + 1.0f);
    return x < 0.0f ? -y : y;
}

static inline float ge_sigmoid_f32(float x) {
    return 1.0f / (1.0f + ge_exp_f32(-x));
}

/* The error function by Abramowitz and Stegun, formula 7.1.26. */
static inline float ge_erf_f32(float x) {
    const float a = ge_abs_f32(x);
    const float t = 1.0f / (1.0f + 0.3275911f * a);
    float p = 1.061405429f;
    p = p * t + -1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t + -0.284496736f;
    p = p * t + 0.254829592f;
    const float y = 1.0f - p * t * ge_exp_f32(-(a * a));
    return x < 0.0f ? -y : y;
}

/* ln(1 + e^x). */
static inline float ge_softplus_f32(float x) {
    return (x > 0.0f ? x : 0.0f) + ge_log_f32(1.0f + ge_exp_f32(-ge_abs_f32(x)));
}

/* The square root, correctly rounded and computed bit by bit; NaN for x < 0. */
static inline float ge_sqrt_f32(float x) {
    if (!(x > 0.0f) || x > 3.4028235e38f) {
        return x >= 0.0f || x != x ? x : ge_float_of(0x7FC00000u);
    }
    const int32_t tiny = x < 1.17549435e-38f;
    const uint32_t bits = ge_bits_of(tiny ? x * 16777216.0f : x);
    int32_t n = (int32_t)(bits >> 23) - 127 - (tiny ? 24 : 0);
    uint32_t rest = (bits & 0x007FFFFFu) | 0x00800000u;
    if (n % 2 != 0) {
        rest = rest << 1;
        n = n - 1;
    }
    uint32_t root = 0;
    uint32_t sum = 0;
    rest = rest << 1;
    for (uint32_t bit = 0x01000000u; bit != 0; bit >>= 1) {
        const uint32_t trial = sum + bit;
        if (trial <= rest) {
            sum = trial + bit;
            rest -= trial;
            root += bit;
        }
        rest = rest << 1;
    }
    if (rest != 0) {
        root += root & 1u;
    }
    return ge_float_of((root >> 1) + ((uint32_t)(n / 2 + 126) << 23));
}

/* Rounds towards zero. Numbers of 2^23 and more are integers already. The result 0 is always +0. */
static inline float ge_trunc_f32(float x) {
    return ge_abs_f32(x) < 8388608.0f ? (float)(int32_t)x : x;
}

static inline float ge_floor_f32(float x) {
    const float t = ge_trunc_f32(x);
    return t > x ? t - 1.0f : t;
}

static inline float ge_ceil_f32(float x) {
    const float t = ge_trunc_f32(x);
    return t < x ? t + 1.0f : t;
}

/* Rounds to the nearest integer, halves to even. */
static inline float ge_round_f32(float x) {
    const float low = ge_floor_f32(x);
    const float rest = x - low;
    const float half = 0.5f * low;
    const int32_t odd = ge_floor_f32(half) != half;
    return rest > 0.5f || (rest >= 0.5f && odd) ? low + 1.0f : low;
}

#endif
