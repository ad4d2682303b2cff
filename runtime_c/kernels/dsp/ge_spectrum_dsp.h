/* The transform of a front end for Cortex-M4, M7 and M33, for features.c: the counterpart of portable/ge_spectrum.h.
 *
 * SMMUL multiplies 32 by 32 bits and keeps the upper 32, which is a rotation and the division by 4 at once; SMMLA and
 * SMMLS add and subtract such a product. The sizes of a stage are constants, so offsets are part of the instructions.
 */
#ifndef GE_SPECTRUM_DSP_H
#define GE_SPECTRUM_DSP_H

#include "ge.h"
#include "ge_spectrum.h"

#define GE_SPECTRUM_DSP_OF_TWO(name, instruction)                                                                      \
    static inline int32_t name(int32_t x, int32_t w) {                                                                 \
        int32_t y;                                                                                                     \
        __asm__(instruction " %0, %1, %2" : "=r"(y) : "r"(x), "r"(w));                                                 \
        return y;                                                                                                      \
    }

#define GE_SPECTRUM_DSP_OF_THREE(name, instruction)                                                                    \
    static inline int32_t name(int32_t x, int32_t w, int32_t sum) {                                                    \
        int32_t y;                                                                                                     \
        __asm__(instruction " %0, %1, %2, %3" : "=r"(y) : "r"(x), "r"(w), "r"(sum));                                   \
        return y;                                                                                                      \
    }

GE_SPECTRUM_DSP_OF_TWO(ge_spectrum_dsp_low, "smulwb")
GE_SPECTRUM_DSP_OF_TWO(ge_spectrum_dsp_high, "smulwt")
GE_SPECTRUM_DSP_OF_TWO(ge_spectrum_dsp_part, "smmul")
GE_SPECTRUM_DSP_OF_THREE(ge_spectrum_dsp_added, "smmla")
GE_SPECTRUM_DSP_OF_THREE(ge_spectrum_dsp_subtracted, "smmls")

static inline int32_t ge_spectrum_dsp_more(int32_t y, int32_t x, int32_t w) {
    return ge_spectrum_dsp_added(x, w, y);
}

static inline int32_t ge_spectrum_dsp_less(int32_t y, int32_t x, int32_t w) {
    return ge_spectrum_dsp_subtracted(x, w, y);
}

static inline int32_t ge_spectrum_dsp_zeros(uint32_t x) {
    int32_t n;
    __asm__("clz %0, %1" : "=r"(n) : "r"(x));
    return n;
}

/* x ^ (x << 1) has as many leading zeros as x has redundant signs; the bit that the lower half shifts into the upper
 * one is bit 0 there, which does not matter, as at most 14 are counted. Eight samples at a time: zeros follow those of
 * the frame. */
static inline int32_t ge_spectrum_dsp_headroom(const int16_t *x, int32_t count) {
    const ge_word *words = (const ge_word *)(const void *)x;
    uint32_t signs = 0;
    for (int32_t i = 0; i < count; i += 8, words += 4) {
        signs |= words[0] ^ (words[0] << 1);
        signs |= words[1] ^ (words[1] << 1);
        signs |= words[2] ^ (words[2] << 1);
        signs |= words[3] ^ (words[3] << 1);
    }
    const int32_t h = ge_spectrum_dsp_zeros((signs | signs << 16) & 0xFFFF0000u);
    return h < GE_SPECTRUM_HEADROOM_MAX ? h : GE_SPECTRUM_HEADROOM_MAX;
}

/* Transforms four complex numbers a, b, c, d, shifted left by h, to places that are `apart` words from each other; a is
 * divided by 2^down. */
static inline void ge_spectrum_dsp_four(int32_t *z, int32_t apart, int32_t down, int32_t h, int32_t ar, int32_t ai,
                                        int32_t br, int32_t bi, int32_t cr, int32_t ci, int32_t dr, int32_t di) {
    const int32_t er = (ar >> down) + cr;
    const int32_t ei = (ai >> down) + ci;
    const int32_t fr = (ar >> down) - cr;
    const int32_t fi = (ai >> down) - ci;
    const int32_t gr = br + dr;
    const int32_t gi = bi + di;
    const int32_t kr = br - dr;
    const int32_t ki = bi - di;
    z[0] = (int32_t)((uint32_t)(er + gr) << h);
    z[1] = (int32_t)((uint32_t)(ei + gi) << h);
    z[apart] = (int32_t)((uint32_t)(fr + ki) << h);
    z[apart + 1] = (int32_t)((uint32_t)(fi - kr) << h);
    z[2 * apart] = (int32_t)((uint32_t)(er - gr) << h);
    z[2 * apart + 1] = (int32_t)((uint32_t)(ei - gi) << h);
    z[3 * apart] = (int32_t)((uint32_t)(fr - ki) << h);
    z[3 * apart + 1] = (int32_t)((uint32_t)(fi + kr) << h);
}

#define GE_SPECTRUM_DSP_RE(i) ge_spectrum_dsp_low(w[2 * (i)], (int32_t)x[i])
#define GE_SPECTRUM_DSP_IM(i) ge_spectrum_dsp_high(w[2 * (i) + 1], (int32_t)x[i])

__attribute__((always_inline)) static inline void ge_spectrum_dsp_first_of(const int16_t *sound, const int32_t *window,
                                                                           const uint16_t *order, int32_t groups,
                                                                           int32_t h, int32_t *z) {
    const uint16_t *end = order + groups;
    while (order < end) {
        const ge_word *x = (const ge_word *)(const void *)sound + *order;
        const int32_t *w = window + 2 * *order++;
        const int32_t ar = GE_SPECTRUM_DSP_RE(0);
        const int32_t ai = GE_SPECTRUM_DSP_IM(0);
        const int32_t br = GE_SPECTRUM_DSP_RE(groups);
        const int32_t bi = GE_SPECTRUM_DSP_IM(groups);
        const int32_t cr = GE_SPECTRUM_DSP_RE(2 * groups);
        const int32_t ci = GE_SPECTRUM_DSP_IM(2 * groups);
        const int32_t dr = GE_SPECTRUM_DSP_RE(3 * groups);
        const int32_t di = GE_SPECTRUM_DSP_IM(3 * groups);
        ge_spectrum_dsp_four(z, 2, 0, h, ar, ai, br, bi, cr, ci, dr, di);
        z += 8;
    }
}

/* The first transforms of 512 points. */
static GE_NOINLINE void ge_spectrum_dsp_first_64(const int16_t *sound, const int32_t *window, const uint16_t *order,
                                                 int32_t h, int32_t *z) {
    ge_spectrum_dsp_first_of(sound, window, order, 64, h, z);
}

static inline int32_t ge_spectrum_dsp_first(const int16_t *sound, const int32_t *window, const uint16_t *order,
                                            int32_t half, int32_t h, int32_t *z) {
    if (half == 256) {
        ge_spectrum_dsp_first_64(sound, window, order, h, z);
    } else if ((ge_spectrum_dsp_zeros((uint32_t)half) & 1) != 0) {
        ge_spectrum_dsp_first_of(sound, window, order, half / 4, h, z);
    } else {
        return ge_spectrum_first(sound, window, order, half, h, z);
    }
    return 4;
}

#define GE_SPECTRUM_DSP_TURN(re, im, at, w)                                                                            \
    const int32_t re = ge_spectrum_dsp_more(ge_spectrum_dsp_part(z[at], (w)[0]), z[(at) + 1], (w)[1]);                 \
    const int32_t im = ge_spectrum_dsp_less(ge_spectrum_dsp_part(z[(at) + 1], (w)[0]), z[at], (w)[1]);

/* Combines the transforms that begin at z, with the rotations w. */
__attribute__((always_inline)) static inline void ge_spectrum_dsp_combine(int32_t *z, int32_t size, const int32_t *w) {
    GE_SPECTRUM_DSP_TURN(br, bi, 2 * size, w)
    GE_SPECTRUM_DSP_TURN(cr, ci, 4 * size, w + 2)
    GE_SPECTRUM_DSP_TURN(dr, di, 6 * size, w + 4)
    ge_spectrum_dsp_four(z, 2 * size, 2, 0, z[0], z[1], br, bi, cr, ci, dr, di);
}

/* The same without a rotation, which is exact. */
__attribute__((always_inline)) static inline void ge_spectrum_dsp_combine_first(int32_t *z, int32_t size) {
    const int32_t *b = z + 2 * size;
    const int32_t *c = z + 4 * size;
    const int32_t *d = z + 6 * size;
    ge_spectrum_dsp_four(z, 2 * size, 2, 0, z[0], z[1], b[0] >> 2, b[1] >> 2, c[0] >> 2, c[1] >> 2, d[0] >> 2,
                         d[1] >> 2);
}

__attribute__((always_inline)) static inline void ge_spectrum_dsp_stage_of(int32_t *z, int32_t half, int32_t size,
                                                                           const int32_t *turns) {
    const int32_t groups = half / 4 / size;
    for (int32_t i = 0; i < groups; i++) {
        ge_spectrum_dsp_combine_first(z + 8 * size * i, size);
    }
    for (int32_t k = 1; k < size; k++) {
        z += 2;
        turns += 6 * groups;
        int32_t *at = z;
        for (int32_t i = 0; i < groups; i++, at += 8 * size) {
            ge_spectrum_dsp_combine(at, size, turns);
        }
    }
}

/* The stages of 512 points. */
static GE_NOINLINE void ge_spectrum_dsp_stage_4(int32_t *z, const int32_t *turns) {
    ge_spectrum_dsp_stage_of(z, 256, 4, turns);
}

static GE_NOINLINE void ge_spectrum_dsp_stage_16(int32_t *z, const int32_t *turns) {
    ge_spectrum_dsp_stage_of(z, 256, 16, turns);
}

static GE_NOINLINE void ge_spectrum_dsp_stage_64(int32_t *z, const int32_t *turns) {
    ge_spectrum_dsp_stage_of(z, 256, 64, turns);
}

static GE_NOINLINE void ge_spectrum_dsp_stage_any(int32_t *z, int32_t half, int32_t size, const int32_t *turns) {
    ge_spectrum_dsp_stage_of(z, half, size, turns);
}

static inline void ge_spectrum_dsp_stage(int32_t *z, int32_t half, int32_t size, const int32_t *turns) {
    if (half != 256) {
        ge_spectrum_dsp_stage_any(z, half, size, turns);
    } else if (size == 4) {
        ge_spectrum_dsp_stage_4(z, turns);
    } else if (size == 16) {
        ge_spectrum_dsp_stage_16(z, turns);
    } else {
        ge_spectrum_dsp_stage_64(z, turns);
    }
}

#endif
