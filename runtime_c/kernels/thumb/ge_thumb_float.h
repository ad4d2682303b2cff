/* Comparisons of float32 by their bits, for cores whose comparisons of floats are functions of the C library or cost as much as
 * four integer instructions. */
#ifndef GE_THUMB_FLOAT_H
#define GE_THUMB_FLOAT_H

#include "ge.h"
#include "ge_float.h"

/* The bounds of outputs. kind: 0: any; 1: only infinities become the largest numbers; 2: and negative numbers become 0. */
typedef struct {
    float lo, hi;
    int32_t kind;
} ge_thumb_limits;

static inline ge_thumb_limits ge_thumb_limits_of(float lo, float hi) {
    const uint32_t largest = 0x7F7FFFFFu;
    const int32_t open = ge_bits_of(hi) == largest;
    const int32_t kind = !open ? 0 : (ge_bits_of(lo) == (largest | 0x80000000u) ? 1 : (ge_bits_of(lo) == 0 ? 2 : 0));
    const ge_thumb_limits limits = {lo, hi, kind};
    return limits;
}

/* ge_clamp_f32. -0 is not below 0. */
static inline float ge_thumb_limited(float y, const ge_thumb_limits *limits) {
    const uint32_t bits = ge_bits_of(y);
    if (limits->kind == 0 || (bits << 1) >= 0xFF000000u) {
        return ge_clamp_f32(y, limits->lo, limits->hi);
    }
    return limits->kind == 2 && bits > 0x80000000u ? 0.0f : y;
}

/* Whether v > best, of which best is no NaN. */
#define GE_THUMB_ABOVE_S16(v, best) ((v) > (best))
#if defined(__ARM_FP) && (__ARM_FP & 4)
#define GE_THUMB_ABOVE_F32(v, best) ((v) > (best))
#else
#define GE_THUMB_ABOVE_F32(v, best) ge_thumb_above(v, best)
#endif

/* A number that has the order of the float, in which both zeros are 0. */
static inline int32_t ge_thumb_order(float x) {
    const int32_t magnitude = (int32_t)(ge_bits_of(x) & 0x7FFFFFFFu);
    return (ge_bits_of(x) >> 31) != 0 ? -magnitude : magnitude;
}

static inline int32_t ge_thumb_above(float v, float best) {
    const int32_t order = ge_thumb_order(v);
    return order > ge_thumb_order(best) && order <= 0x7F800000;
}

#endif
