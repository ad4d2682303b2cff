/* float32 to integers, the twin of QType.quantize: x / scale to the nearest, ties to even. */
#ifndef GE_QUANTIZE_H
#define GE_QUANTIZE_H

#include <stdint.h>

/* Exact for |x| < 2^22: the difference from the truncated value has no rounding. */
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

/* clamp(round(x / scale) + zero_point, lo, hi); nan gives the zero point. The clamp comes first, which changes nothing because
 * the limits are whole numbers. */
static inline int32_t ge_quantize(float x, float scale, int32_t zero_point, int32_t lo, int32_t hi) {
    const float steps = x / scale;
    if (steps <= (float)(lo - zero_point)) {
        return lo;
    }
    if (steps >= (float)(hi - zero_point)) {
        return hi;
    }
    return (steps > (float)(lo - zero_point) ? ge_rounded_float(steps) : 0) + zero_point; /* nan: no comparison holds */
}

#endif
