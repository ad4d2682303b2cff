/* Sums and products of two numbers of int16 or float32, for pair_wide_thumb.c: what is the same for all elements is prepared once.
 *
 * Integers: zero points and rounding are one start value of 64 bits, and an output fits 32 bits before it is clamped; kernels/thumb/elements.py
 * proves both. Floats: infinities and NaN are found by their bits, so that other outputs need no comparison of floats. */
#ifndef GE_THUMB_PAIR_H
#define GE_THUMB_PAIR_H

#include "ge.h"
#include "ge_thumb_float.h"

typedef struct {
    int32_t zero_a, zero_b, multiplier_a, multiplier_b;
    int64_t start;
    int32_t lo, hi;
} ge_thumb_pair_s16;

/* A multiplier that gcc does not know: it would multiply by a constant of 64 bits, in three instructions more than SMULL. */
static inline int32_t ge_thumb_pair_hidden(int32_t multiplier) {
    __asm__("" : "+r"(multiplier));
    return multiplier;
}

/* The addend of a sum of products: its rounding and the zero point of the output. */
#define GE_THUMB_PAIR_START(p, s) ((int64_t)(p)->out_zero_point * ((int64_t)1 << (s)) + ((int64_t)1 << ((s) - 1)))

#define GE_THUMB_PAIR_ADD_S16_LAW(p, s)                                                                                \
    {0,                                                                                                                \
     0,                                                                                                                \
     ge_thumb_pair_hidden((p)->multiplier_a),                                                                          \
     ge_thumb_pair_hidden((p)->multiplier_b),                                                                          \
     GE_THUMB_PAIR_START(p, s) - (int64_t)(p)->zero_point_a * (p)->multiplier_a -                                      \
         (int64_t)(p)->zero_point_b * (p)->multiplier_b,                                                               \
     (p)->lo,                                                                                                          \
     (p)->hi}

#define GE_THUMB_PAIR_MUL_S16_LAW(p, s)                                                                                \
    {(p)->zero_point_a,                                                                                                \
     (p)->zero_point_b,                                                                                                \
     ge_thumb_pair_hidden((p)->multiplier),                                                                            \
     0,                                                                                                                \
     GE_THUMB_PAIR_START(p, s),                                                                                        \
     (p)->lo,                                                                                                          \
     (p)->hi}

/* Where SSAT is one instruction, other bounds than those of int16 and of ReLU cost four more. */
#ifdef __ARM_FEATURE_SAT
#define GE_THUMB_PAIR_SSAT(y) __asm__("ssat %0, #16, %0" : "+r"(y))
#define GE_THUMB_PAIR_USAT(y) __asm__("usat %0, #15, %0" : "+r"(y))
#else
#define GE_THUMB_PAIR_SSAT(y) (y) = (y) < INT16_MIN ? INT16_MIN : ((y) > INT16_MAX ? INT16_MAX : (y))
#define GE_THUMB_PAIR_USAT(y) (y) = (y) < 0 ? 0 : ((y) > INT16_MAX ? INT16_MAX : (y))
#endif

/* bounds: 0: those of int16, 1: from 0 on, 2: any. */
static inline int16_t ge_thumb_pair_bounded(int32_t y, const ge_thumb_pair_s16 *law, int32_t bounds) {
    if (bounds == 0) {
        GE_THUMB_PAIR_SSAT(y);
    } else if (bounds == 1) {
        GE_THUMB_PAIR_USAT(y);
    } else {
        y = y < law->lo ? law->lo : (y > law->hi ? law->hi : y);
    }
    return (int16_t)y;
}

static inline int16_t ge_thumb_pair_sum(int32_t a, int32_t b, const ge_thumb_pair_s16 *law, int32_t shift,
                                        int32_t bounds) {
    const int64_t sum = law->start + (int64_t)a * law->multiplier_a + (int64_t)b * law->multiplier_b;
    return ge_thumb_pair_bounded((int32_t)(sum >> shift), law, bounds);
}

static inline int16_t ge_thumb_pair_product(int32_t a, int32_t b, const ge_thumb_pair_s16 *law, int32_t shift,
                                            int32_t bounds) {
    const int32_t product = (a - law->zero_a) * (b - law->zero_b);
    return ge_thumb_pair_bounded((int32_t)((law->start + (int64_t)product * law->multiplier_a) >> shift), law, bounds);
}

#define GE_THUMB_PAIR_ADD_S16(a, b, law, s, bounds) ge_thumb_pair_sum(a, b, law, s, bounds)
#define GE_THUMB_PAIR_MUL_S16(a, b, law, s, bounds) ge_thumb_pair_product(a, b, law, s, bounds)

typedef struct {
    ge_thumb_limits limits;
    uint32_t sign; /* of the second operand: its bit is flipped for a difference */
} ge_thumb_pair_f32;

#define GE_THUMB_PAIR_ADD_F32_LAW(p, s) {ge_thumb_limits_of((p)->lo, (p)->hi), (uint32_t)(p)->subtract << 31}
#define GE_THUMB_PAIR_MUL_F32_LAW(p, s) {ge_thumb_limits_of((p)->lo, (p)->hi), 0}
#define GE_THUMB_PAIR_ADD_F32(a, b, law, s, bounds)                                                                    \
    ge_thumb_limited((law)->sign != 0 ? (a) - (b) : (a) + (b), &(law)->limits)
#define GE_THUMB_PAIR_MUL_F32(a, b, law, s, bounds) ge_thumb_limited((a) * (b), &(law)->limits)

#endif
