/* Helpers of generated loop nests: integer division, shifts, conversions, and floats of 16, 8 and 4 bits. They give the
 * same results as glowembed/nest/interpret.py for every number, also where C leaves the result undefined.
 *
 * GE_NEST_INTEGER defines the functions for integers: ge_div_int32, ge_mod_uint8, ge_shr_index and so on.
 */
#ifndef GE_NEST_H
#define GE_NEST_H

#include <stdint.h>
#include <string.h>

#include "ge_float.h"

static inline int32_t ge_bits_float32(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float ge_bits_int32(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline int64_t ge_bits_float64(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double ge_bits_int64(int64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float ge_inf_float32(void) {
    return ge_bits_int32(0x7F800000);
}

static inline float ge_nan_float32(void) {
    return ge_bits_int32(0x7FC00000);
}

static inline double ge_inf_float64(void) {
    return ge_bits_int64(0x7FF0000000000000LL);
}

static inline double ge_nan_float64(void) {
    return ge_bits_int64(0x7FF8000000000000LL);
}

static inline float ge_abs_float32(float x) {
    return ge_bits_int32(ge_bits_float32(x) & 0x7FFFFFFF);
}

static inline double ge_abs_float64(double x) {
    return ge_bits_int64(ge_bits_float64(x) & 0x7FFFFFFFFFFFFFFFLL);
}

static inline int ge_isinf_float32(float x) {
    return ge_abs_float32(x) == ge_inf_float32();
}

static inline int ge_isinf_float64(double x) {
    return ge_abs_float64(x) == ge_inf_float64();
}

static inline int ge_isnan_float32(float x) {
    return x != x;
}

static inline int ge_isnan_float64(double x) {
    return x != x;
}

/* If neither operand is less or greater, as with NaN, the result is the second one. */
#define GE_NEST_ORDER(kind, ctype)                                                                                     \
    static inline ctype ge_min_##kind(ctype a, ctype b) {                                                              \
        return a < b ? a : b;                                                                                          \
    }                                                                                                                  \
    static inline ctype ge_max_##kind(ctype a, ctype b) {                                                              \
        return a > b ? a : b;                                                                                          \
    }
GE_NEST_ORDER(float32, float)
GE_NEST_ORDER(float64, double)
GE_NEST_ORDER(int8, int8_t)
GE_NEST_ORDER(int16, int16_t)
GE_NEST_ORDER(int32, int32_t)
GE_NEST_ORDER(int64, int64_t)
GE_NEST_ORDER(uint8, uint8_t)
GE_NEST_ORDER(uint16, uint16_t)
GE_NEST_ORDER(uint32, uint32_t)
GE_NEST_ORDER(uint64, uint64_t)
GE_NEST_ORDER(index, int32_t)

/* The square root, rounded to nearest and computed bit by bit. */
static inline double ge_sqrt_float64(double x) {
    uint64_t m, rest = 0, root = 0;
    int32_t exponent = 0;
    if (!(x > 0.0) || x == ge_inf_float64()) {
        return x < 0.0 ? ge_nan_float64() : x;
    }
    if (x < 2.2250738585072014e-308) {
        x = x * 18014398509481984.0; /* 2^54 */
        exponent = -54;
    }
    m = (uint64_t)ge_bits_float64(x);
    exponent += (int32_t)(m >> 52) - 1023;
    m = (m & 0x000FFFFFFFFFFFFFu) | 0x0010000000000000u;
    if ((exponent & 1) != 0) {
        m = m << 1;
        exponent -= 1;
    }
    /* m has 53 or 54 bits. Its pairs of bits from the top, followed by zeros, give the 54 bits of the root. */
    for (int32_t i = 0; i < 54; i++) {
        const uint64_t pair = i < 27 ? m >> (52 - 2 * i) & 3u : 0u;
        rest = rest << 2 | pair;
        root = root << 1;
        if (rest >= 2u * root + 1u) {
            rest -= 2u * root + 1u;
            root += 1u;
        }
    }
    root = (root >> 1) + (root & 1u); /* the remainder is never 0 if the last bit is 1, so there is no tie */
    return ge_bits_int64((int64_t)(((uint64_t)(exponent / 2 + 1023) << 52) + (root - 0x0010000000000000u)));
}

static inline float ge_sqrt_float32(float x) {
    return ge_sqrt_f32(x);
}

#define GE_NEST_FLOAT(kind, ctype, itype, big)                                                                         \
    static inline ctype ge_signed_##kind(ctype x, ctype size) { /* size with the sign of x */                          \
        return ge_bits_##itype((ge_bits_##kind(x) & (itype##_t)((itype##_t) - 1 - GE_NEST_MOST_##itype)) |             \
                               ge_bits_##kind(size));                                                                  \
    }                                                                                                                  \
    static inline ctype ge_trunc_##kind(ctype x) {                                                                     \
        return ge_abs_##kind(x) < (big) ? ge_signed_##kind(x, ge_abs_##kind((ctype)(itype##_t)x)) : x;                 \
    }                                                                                                                  \
    static inline ctype ge_floor_##kind(ctype x) {                                                                     \
        const ctype r = ge_trunc_##kind(x);                                                                            \
        return r > x ? r - (ctype)1 : r;                                                                               \
    }                                                                                                                  \
    static inline ctype ge_ceil_##kind(ctype x) {                                                                      \
        const ctype r = ge_trunc_##kind(x);                                                                            \
        return r < x ? ge_signed_##kind(x, ge_abs_##kind(r + (ctype)1)) : r;                                           \
    }                                                                                                                  \
    static inline ctype ge_rint_##kind(ctype x) {                                                                      \
        const ctype r = ge_trunc_##kind(x);                                                                            \
        const ctype rest = ge_abs_##kind(x - r), half = (ctype)0.5, size = ge_abs_##kind(r);                           \
        const int odd = size < (big) && ((itype##_t)size & 1) != 0;                                                    \
        return rest > half || (rest == half && odd) ? ge_signed_##kind(x, size + (ctype)1) : r;                        \
    }                                                                                                                  \
    static inline ctype ge_fmod_##kind(ctype x, ctype y) {                                                             \
        const ctype a = ge_abs_##kind(x), b = ge_abs_##kind(y);                                                        \
        ctype rest = a;                                                                                                \
        if (!(b > (ctype)0) || !(a < ge_inf_##kind())) {                                                               \
            return ge_nan_##kind();                                                                                    \
        }                                                                                                              \
        while (rest >= b) {                                                                                            \
            ctype part = b;                                                                                            \
            while (part <= rest - part) {                                                                              \
                part = part + part;                                                                                    \
            }                                                                                                          \
            rest = rest - part;                                                                                        \
        }                                                                                                              \
        return ge_signed_##kind(x, rest);                                                                              \
    }                                                                                                                  \
    static inline ctype ge_mod_##kind(ctype x, ctype y) {                                                              \
        const ctype r = ge_fmod_##kind(x, y);                                                                          \
        if (r != (ctype)0) {                                                                                           \
            return (r < (ctype)0) != (y < (ctype)0) ? r + y : r;                                                       \
        }                                                                                                              \
        return r == r ? ge_signed_##kind(y, (ctype)0) : r;                                                             \
    }
#define GE_NEST_MOST_int32 INT32_MAX
#define GE_NEST_MOST_int64 INT64_MAX
GE_NEST_FLOAT(float32, float, int32, 8388608.0f)
GE_NEST_FLOAT(float64, double, int64, 4503599627370496.0)

/* Truncates and clamps; NaN becomes 0. limit: the largest result plus one. */
#define GE_NEST_CONVERT(kind, ctype, low, high, least, limit)                                                          \
    static inline ctype ge_##kind##_of_float64(double x) {                                                             \
        return x != x ? (ctype)0 : x >= (limit) ? (high) : x <= (least) ? (low) : (ctype)x;                            \
    }                                                                                                                  \
    static inline ctype ge_##kind##_of_float32(float x) {                                                              \
        return x != x ? (ctype)0 : x >= (limit##f) ? (high) : x <= (least##f) ? (low) : (ctype)x;                      \
    }
GE_NEST_CONVERT(int8, int8_t, INT8_MIN, INT8_MAX, -128.0, 128.0)
GE_NEST_CONVERT(int16, int16_t, INT16_MIN, INT16_MAX, -32768.0, 32768.0)
GE_NEST_CONVERT(int32, int32_t, INT32_MIN, INT32_MAX, -2147483648.0, 2147483648.0)
GE_NEST_CONVERT(int64, int64_t, INT64_MIN, INT64_MAX, -9223372036854775808.0, 9223372036854775808.0)
GE_NEST_CONVERT(uint8, uint8_t, 0, UINT8_MAX, 0.0, 256.0)
GE_NEST_CONVERT(uint16, uint16_t, 0, UINT16_MAX, 0.0, 65536.0)
GE_NEST_CONVERT(uint32, uint32_t, 0, UINT32_MAX, 0.0, 4294967296.0)
GE_NEST_CONVERT(uint64, uint64_t, 0, UINT64_MAX, 0.0, 18446744073709551616.0)
GE_NEST_CONVERT(index, int32_t, INT32_MIN, INT32_MAX, -2147483648.0, 2147483648.0)

#define GE_NEST_SHIFTS(kind, ctype, utype, width, fill)                                                                \
    static inline ctype ge_shl_##kind(ctype a, ctype b) {                                                              \
        return (ctype)((uint64_t)b < (width) ? (ctype)((utype)((uint64_t)a << (uint64_t)b)) : (ctype)0);               \
    }                                                                                                                  \
    static inline ctype ge_shr_##kind(ctype a, ctype b) {                                                              \
        return (ctype)((uint64_t)b < (width) ? (ctype)(a >> b) : (ctype)(fill));                                       \
    }
#define GE_NEST_SIGNED(kind, ctype, utype, width)                                                                      \
    static inline ctype ge_negated_##kind(ctype a) {                                                                   \
        return (ctype)((utype)0 - (utype)a);                                                                           \
    }                                                                                                                  \
    static inline ctype ge_abs_##kind(ctype a) {                                                                       \
        return (ctype)(a < 0 ? ge_negated_##kind(a) : a);                                                              \
    }                                                                                                                  \
    static inline ctype ge_div_##kind(ctype a, ctype b) {                                                              \
        return (ctype)(b == 0 ? (ctype)0 : b == -1 ? ge_negated_##kind(a) : (ctype)(a / b));                           \
    }                                                                                                                  \
    static inline ctype ge_fmod_##kind(ctype a, ctype b) {                                                             \
        return (ctype)(b == 0 || b == -1 ? (ctype)0 : (ctype)(a % b));                                                 \
    }                                                                                                                  \
    static inline ctype ge_mod_##kind(ctype a, ctype b) {                                                              \
        const ctype r = ge_fmod_##kind(a, b);                                                                          \
        return (ctype)(r != 0 && (r < 0) != (b < 0) ? (ctype)(r + b) : r);                                             \
    }                                                                                                                  \
    static inline ctype ge_floordiv_##kind(ctype a, ctype b) {                                                         \
        const ctype q = ge_div_##kind(a, b);                                                                           \
        return (ctype)(ge_fmod_##kind(a, b) != 0 && (a < 0) != (b < 0) ? (ctype)(q - 1) : q);                          \
    }                                                                                                                  \
    GE_NEST_SHIFTS(kind, ctype, utype, width, a < 0 ? -1 : 0)
#define GE_NEST_UNSIGNED(kind, ctype, width)                                                                           \
    static inline ctype ge_abs_##kind(ctype a) {                                                                       \
        return a;                                                                                                      \
    }                                                                                                                  \
    static inline ctype ge_div_##kind(ctype a, ctype b) {                                                              \
        return (ctype)(b == 0 ? (ctype)0 : (ctype)(a / b));                                                            \
    }                                                                                                                  \
    static inline ctype ge_floordiv_##kind(ctype a, ctype b) {                                                         \
        return ge_div_##kind(a, b);                                                                                    \
    }                                                                                                                  \
    static inline ctype ge_mod_##kind(ctype a, ctype b) {                                                              \
        return (ctype)(b == 0 ? (ctype)0 : (ctype)(a % b));                                                            \
    }                                                                                                                  \
    static inline ctype ge_fmod_##kind(ctype a, ctype b) {                                                             \
        return ge_mod_##kind(a, b);                                                                                    \
    }                                                                                                                  \
    GE_NEST_SHIFTS(kind, ctype, ctype, width, 0)
GE_NEST_SIGNED(int8, int8_t, uint8_t, 8)
GE_NEST_SIGNED(int16, int16_t, uint16_t, 16)
GE_NEST_SIGNED(int32, int32_t, uint32_t, 32)
GE_NEST_SIGNED(int64, int64_t, uint64_t, 64)
GE_NEST_SIGNED(index, int32_t, uint32_t, 32)
GE_NEST_UNSIGNED(uint8, uint8_t, 8)
GE_NEST_UNSIGNED(uint16, uint16_t, 16)
GE_NEST_UNSIGNED(uint32, uint32_t, 32)
GE_NEST_UNSIGNED(uint64, uint64_t, 64)

/* Returns the floor of the square root of a >= 0, computed bit by bit. */
static inline int64_t ge_sqrt_int64(int64_t a) {
    uint64_t rest = (uint64_t)a, root = 0, bit = (uint64_t)1 << 62;
    while (bit > rest) {
        bit = bit >> 2;
    }
    while (bit != 0) {
        if (rest >= root + bit) {
            rest -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root = root >> 1;
        }
        bit = bit >> 2;
    }
    return (int64_t)root;
}

/* Returns the number of bits in a >= 0. */
static inline int64_t ge_length_int64(int64_t a) {
    int64_t bits = 0;
    for (int32_t step = 32; step != 0; step = step >> 1) {
        if (a >> step != 0) {
            a = a >> step;
            bits += step;
        }
    }
    return bits + a;
}

/* For a position that may lie outside a tensor of `size` elements: the nearest valid position, and whether the position
 * is valid. */
static inline int32_t ge_nearest(int32_t position, int32_t size) {
    return position < 0 ? 0 : position < size ? position : size - 1;
}

static inline int ge_inside(int32_t position, int32_t size) {
    return position >= 0 && position < size;
}

/* Returns the lowest `bits` bits of an integer, as a type narrower than a byte is stored in a byte. */
static inline int8_t ge_low_bits_int8(int8_t x, int32_t bits) {
    const int32_t top = 1 << (bits - 1), low = (int32_t)((uint32_t)x & ((1u << bits) - 1u));
    return (int8_t)((low ^ top) - top);
}

static inline uint8_t ge_low_bits_uint8(uint8_t x, int32_t bits) {
    return (uint8_t)(x & ((1u << bits) - 1u));
}

/* Returns the value of a float with e bits of exponent and m of mantissa in which no pattern means infinity or NaN. */
static inline float ge_widened(uint32_t v, int32_t e, int32_t m, int32_t bias) {
    const uint32_t sign = v >> (e + m), exponent = v >> m & ((1u << e) - 1u), mantissa = v & ((1u << m) - 1u);
    const float size = exponent != 0u
                           ? ge_bits_int32((int32_t)((exponent - (uint32_t)bias + 127u) << 23 | mantissa << (23 - m)))
                           : (float)mantissa * ge_bits_int32((128 - bias - m) << 23);
    return sign != 0u ? -size : size;
}

/* Rounds a finite x to the nearest such float, halves to even. The result may lie beyond the largest one. */
static inline uint32_t ge_narrowed(float x, int32_t e, int32_t m, int32_t bias) {
    const uint32_t bits = (uint32_t)ge_bits_float32(x), sign = bits >> 31 << (e + m), size = bits & 0x7FFFFFFFu;
    int32_t exponent = (int32_t)(size >> 23) - 127 + bias, shift = 23 - m;
    uint32_t mantissa = (size & 0x7FFFFFu) | 0x800000u;
    if (size < 0x800000u) { /* below the normal range of float32 */
        return sign;
    }
    if (exponent <= 0) {
        shift += 1 - exponent;
        exponent = 0;
        if (shift > 25) {
            return sign;
        }
    } else {
        mantissa -= 0x800000u;
    }
    const uint32_t rest = mantissa & ((1u << shift) - 1u), half = 1u << (shift - 1);
    uint32_t result = mantissa >> shift;
    result += rest > half || (rest == half && (result & 1u) != 0u) ? 1u : 0u;
    return sign | (((uint32_t)exponent << m) + result);
}

static inline float ge_from_float16(uint16_t v) {
    if ((v & 0x7C00u) == 0x7C00u) {
        return ge_bits_int32((int32_t)((uint32_t)(v & 0x8000u) << 16 | 0x7F800000u | (uint32_t)(v & 0x3FFu) << 13));
    }
    return ge_widened(v, 5, 10, 15);
}

static inline uint16_t ge_to_float16(float x) {
    const uint32_t sign = (uint32_t)ge_bits_float32(x) >> 16 & 0x8000u;
    if (x != x) {
        return (uint16_t)(sign | 0x7E00u);
    }
    return (uint16_t)(ge_abs_float32(x) >= 65520.0f ? sign | 0x7C00u : ge_narrowed(x, 5, 10, 15));
}

static inline float ge_from_bfloat16(uint16_t v) {
    return ge_bits_int32((int32_t)((uint32_t)v << 16));
}

static inline uint16_t ge_to_bfloat16(float x) {
    const uint32_t bits = (uint32_t)ge_bits_float32(x);
    return (uint16_t)(x != x ? (bits >> 16 & 0x8000u) | 0x7FC0u : (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

static inline float ge_from_float8_e4m3fn(uint8_t v) {
    return (v & 127u) == 127u ? ge_nan_float32() : ge_widened(v, 4, 3, 7);
}

static inline uint8_t ge_to_float8_e4m3fn(float x) {
    const uint32_t sign = ge_bits_float32(x) < 0 ? 128u : 0u;
    return (uint8_t)(!(ge_abs_float32(x) <= 464.0f) ? sign | 127u : ge_narrowed(x, 4, 3, 7));
}

static inline float ge_from_float8_e4m3fnuz(uint8_t v) {
    return v == 128u ? ge_nan_float32() : ge_widened(v, 4, 3, 8);
}

static inline uint8_t ge_to_float8_e4m3fnuz(float x) {
    const uint32_t v = !(ge_abs_float32(x) < 248.0f) ? 128u : ge_narrowed(x, 4, 3, 8);
    return (uint8_t)(v == 128u && ge_abs_float32(x) < 248.0f ? 0u : v);
}

static inline float ge_from_float8_e5m2(uint8_t v) {
    return ge_from_float16((uint16_t)(v << 8));
}

static inline uint8_t ge_to_float8_e5m2(float x) {
    const uint32_t sign = ge_bits_float32(x) < 0 ? 128u : 0u;
    if (x != x) {
        return (uint8_t)(sign | 126u);
    }
    return (uint8_t)(ge_abs_float32(x) >= 61440.0f ? sign | 124u : ge_narrowed(x, 5, 2, 15));
}

static inline float ge_from_float8_e5m2fnuz(uint8_t v) {
    return v == 128u ? ge_nan_float32() : ge_widened(v, 5, 2, 16);
}

static inline uint8_t ge_to_float8_e5m2fnuz(float x) {
    const uint32_t v = !(ge_abs_float32(x) < 61440.0f) ? 128u : ge_narrowed(x, 5, 2, 16);
    return (uint8_t)(v == 128u && ge_abs_float32(x) < 61440.0f ? 0u : v);
}

static inline float ge_from_float8_e8m0fnu(uint8_t v) {
    return v == 255u ? ge_nan_float32() : ge_bits_int32(v == 0u ? 0x400000 : (int32_t)((uint32_t)v << 23));
}

static inline uint8_t ge_to_float8_e8m0fnu(float x) {
    const uint32_t size = (uint32_t)ge_bits_float32(x) & 0x7FFFFFFFu, exponent = size >> 23, rest = size & 0x7FFFFFu;
    if (!(x > 0.0f) || size >= 0x7F800000u) {
        return 255;
    }
    return (uint8_t)(exponent + (rest > 0x400000u || (rest == 0x400000u && exponent > 0u) ? 1u : 0u));
}

static inline float ge_from_float4_e2m1fn(uint8_t v) {
    return ge_widened(v, 2, 1, 1);
}

static inline uint8_t ge_to_float4_e2m1fn(float x) {
    return (uint8_t)(x != x ? 8u : ge_narrowed(ge_clamp_f32(x, -6.0f, 6.0f), 2, 1, 1));
}

#endif
