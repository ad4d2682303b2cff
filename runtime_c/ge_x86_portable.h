/* Sixteen sums at a time in plain C: what the names mean that x86 kernels are written in.
 *
 * Inputs become elements x + 128, in scratch, of the type that a level multiplies best; weights come as [16 outputs][4
 * inputs] and the sums of one such block are 16 int32, so that one image of the constants serves every level. The constants
 * take 128 * sum(w) off the bias. A file in these names is emitted once for each level, with the level's word for x86.
 */
#ifndef GE_X86_PORTABLE_H
#define GE_X86_PORTABLE_H

#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_x86.h"

typedef uint8_t ge_x86_element;

typedef struct {
    int32_t lane[16];
} ge_x86_sums;

typedef struct {
    const int8_t *at;
} ge_x86_weights;

typedef struct {
    int32_t x[4];
} ge_x86_input;

typedef struct {
    int32_t shift;
    int32_t zero_point;
    int32_t lo;
    int32_t hi;
} ge_x86_law;

/* Tiles of pixels by vectors of 16 outputs that there is code for, the widest vectors first; each width down to 1 pixel. */
#define GE_X86_TILES(T) T(1, 1)

static inline GE_X86_INLINE ge_x86_sums ge_x86_load(const int32_t *from) {
    ge_x86_sums sums;
    memcpy(sums.lane, from, sizeof sums.lane);
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_zero(void) {
    const ge_x86_sums zero = {{0}};
    return zero;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_add(ge_x86_sums a, ge_x86_sums b) {
    for (int32_t i = 0; i < 16; i++) {
        a.lane[i] = (int32_t)((uint32_t)a.lane[i] + (uint32_t)b.lane[i]);
    }
    return a;
}

/* 64 weights. */
static inline GE_X86_INLINE ge_x86_weights ge_x86_weights_at(const int8_t *w) {
    const ge_x86_weights weights = {w};
    return weights;
}

/* Four inputs, for all outputs. */
static inline GE_X86_INLINE ge_x86_input ge_x86_input_at(const ge_x86_element *x) {
    const ge_x86_input input = {{x[0], x[1], x[2], x[3]}};
    return input;
}

/* sums[o] += sum over i of w[o][i] * x[i]; what leaves int32 on the way comes back, as the whole sum is inside. */
static inline GE_X86_INLINE ge_x86_sums ge_x86_dot(ge_x86_sums sums, ge_x86_weights w, ge_x86_input x) {
    for (int32_t o = 0; o < 16; o++) {
        const int8_t *four = w.at + 4 * o;
        const int32_t sum = four[0] * x.x[0] + four[1] * x.x[1] + four[2] * x.x[2] + four[3] * x.x[3];
        sums.lane[o] = (int32_t)((uint32_t)sums.lane[o] + (uint32_t)sum);
    }
    return sums;
}

static inline GE_X86_INLINE ge_x86_law ge_x86_law_of(int32_t shift, int32_t zero_point, int32_t lo, int32_t hi) {
    const ge_x86_law law = {shift, zero_point, lo, hi};
    return law;
}

/* Outputs, not clamped: (acc * multiplier + 2^(shift-1)) >> shift, plus zero_point. They fit int32. Where `exact`, the
 * product with the float `scale`, rounded once, is proved to be the same (glowembed/x86.py): that is for the levels that
 * have a fused multiply-add. */
static inline GE_X86_INLINE ge_x86_sums ge_x86_requantize(ge_x86_sums acc, const int32_t *multiplier,
                                                          const float *scale, int32_t exact, const ge_x86_law *law) {
    (void)scale;
    (void)exact;
    for (int32_t i = 0; i < 16; i++) {
        const int64_t product = (int64_t)acc.lane[i] * multiplier[i] + ((int64_t)1 << (law->shift - 1));
        acc.lane[i] = (int32_t)(product >> law->shift) + law->zero_point;
    }
    return acc;
}

/* The first `count` outputs, clamped. */
static inline GE_X86_INLINE void ge_x86_store1(int8_t *to, ge_x86_sums y, int32_t count, const ge_x86_law *law) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = (int8_t)ge_clamp(y.lane[i], law->lo, law->hi);
    }
}

/* Four times 16 outputs, clamped, of which 4 / `pieces` lie one behind the other: those of to[0], or of to[0] and to[2]. */
static inline GE_X86_INLINE void ge_x86_store4(int8_t *const to[4], const ge_x86_sums y[4], int32_t pieces,
                                               const ge_x86_law *law) {
    (void)pieces;
    for (int32_t v = 0; v < 4; v++) {
        ge_x86_store1(to[v], y[v], 16, law);
    }
}

/* Inputs as elements. */
static inline GE_X86_INLINE void ge_x86_expand(ge_x86_element *to, const int8_t *from, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = (uint8_t)(from[i] + 128);
    }
}

#endif
