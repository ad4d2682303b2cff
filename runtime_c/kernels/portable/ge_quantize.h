/* Converts float32 to integers: x / scale, rounded to nearest, halves to even. It gives the same numbers as
 * QType.quantize. */
#ifndef GE_QUANTIZE_H
#define GE_QUANTIZE_H

#include <stdint.h>

/* Rounds to nearest, halves to even. It is exact for |x| < 2^22, because the difference from the truncated value is
 * exact. */
static inline int32_t ge_rounded_float(float x) {
    const int32_t whole = (int32_t)x;
    const float rest = x - (float)whole;
    const int32_t odd = whole % 2 != 0;
    if (rest > 0.5f || (rest >= 0.5f && odd)) {
        return whole + 1;
    }
    if (rest < -0.5f || (rest <= -0.5f && odd)) {
        return whole - 1;
    }
    return whole;
}

/* clamp(round(x / scale) + zero_point, lo, hi); NaN gives the zero point. Clamping before rounding gives the same
 * result, because the limits are integers. */
static inline int32_t ge_quantize(float x, float scale, int32_t zero_point, int32_t lo, int32_t hi) {
    const float steps = x / scale;
    if (steps <= (float)(lo - zero_point)) {
        return lo;
    }
    if (steps >= (float)(hi - zero_point)) {
        return hi;
    }
    return (steps > (float)(lo - zero_point) ? ge_rounded_float(steps) : 0) + zero_point; /* no comparison with NaN
                                                                                           * holds */
}

#endif
