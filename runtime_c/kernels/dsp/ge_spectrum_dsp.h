/* The transform of a front end for Cortex-M4, M7 and M33, for features.c: the counterpart of portable/ge_spectrum.h.
 *
 * A word of sound is a complex number, and a word of the tables is a cosine and a sine. SMULW multiplies 32 by 16 bits
 * and keeps the upper 32, which is a rotation and the division by 4 at once. A stage computes all transforms with the
 * same rotations before it loads the next ones; its sizes are constants, so offsets are part of the instructions.
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
GE_SPECTRUM_DSP_OF_TWO(ge_spectrum_dsp_lows, "smulbb")
GE_SPECTRUM_DSP_OF_TWO(ge_spectrum_dsp_highs, "smultt")
GE_SPECTRUM_DSP_OF_THREE(ge_spectrum_dsp_add_high, "smlawt")

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

#define GE_SPECTRUM_DSP_RE(i) ge_spectrum_dsp_lows((int32_t)x[i], (int32_t)w[i])
#define GE_SPECTRUM_DSP_IM(i) ge_spectrum_dsp_highs((int32_t)x[i], (int32_t)w[i])

static GE_NOINLINE int32_t ge_spectrum_dsp_first(const int16_t *sound, const int16_t *window, const uint16_t *order,
                                                 int32_t half, int32_t h, int32_t *z) {
    if ((ge_spectrum_dsp_zeros((uint32_t)half) & 1) == 0) {
        return ge_spectrum_first(sound, window, order, half, h, z);
    }
    const int32_t groups = half / 4;
    const uint16_t *end = order + groups;
    while (order < end) {
        const ge_word *x = (const ge_word *)(const void *)sound + *order;
        const ge_word *w = (const ge_word *)(const void *)window + *order++;
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
    return 4;
}

#define GE_SPECTRUM_DSP_TURN(re, im, at, w)                                                                            \
    const int32_t re = ge_spectrum_dsp_add_high(z[(at) + 1], w, ge_spectrum_dsp_low(z[at], w));                        \
    const int32_t im = ge_spectrum_dsp_low(z[(at) + 1], w) - ge_spectrum_dsp_high(z[at], w);

static inline void ge_spectrum_dsp_stage_of(int32_t *z, int32_t half, int32_t size, const int16_t *turns) {
    const ge_word *table = (const ge_word *)(const void *)turns;
    const int32_t *end = z + 2 * half;
    const int32_t step = 3 * (half / 4 / size);
    for (int32_t k = 0; k < size; k++) {
        const int32_t w1 = (int32_t)table[0];
        const int32_t w2 = (int32_t)table[1];
        const int32_t w3 = (int32_t)table[2];
        int32_t *first = z;
        for (; z < end; z += 8 * size) {
            GE_SPECTRUM_DSP_TURN(br, bi, 2 * size, w1)
            GE_SPECTRUM_DSP_TURN(cr, ci, 4 * size, w2)
            GE_SPECTRUM_DSP_TURN(dr, di, 6 * size, w3)
            ge_spectrum_dsp_four(z, 2 * size, 2, 0, z[0], z[1], br, bi, cr, ci, dr, di);
        }
        z = first + 2;
        table += step;
    }
}

static GE_NOINLINE void ge_spectrum_dsp_stage_4(int32_t *z, int32_t half, const int16_t *turns) {
    ge_spectrum_dsp_stage_of(z, half, 4, turns);
}

static GE_NOINLINE void ge_spectrum_dsp_stage_16(int32_t *z, int32_t half, const int16_t *turns) {
    ge_spectrum_dsp_stage_of(z, half, 16, turns);
}

/* The last stage of 512 points. */
static GE_NOINLINE void ge_spectrum_dsp_stage_64(int32_t *z, const int16_t *turns) {
    ge_spectrum_dsp_stage_of(z, 256, 64, turns);
}

static GE_NOINLINE void ge_spectrum_dsp_stage_any(int32_t *z, int32_t half, int32_t size, const int16_t *turns) {
    ge_spectrum_dsp_stage_of(z, half, size, turns);
}

static inline void ge_spectrum_dsp_stage(int32_t *z, int32_t half, int32_t size, const int16_t *turns) {
    if (size == 4) {
        ge_spectrum_dsp_stage_4(z, half, turns);
    } else if (size == 16) {
        ge_spectrum_dsp_stage_16(z, half, turns);
    } else if (size == 64 && half == 256) {
        ge_spectrum_dsp_stage_64(z, turns);
    } else {
        ge_spectrum_dsp_stage_any(z, half, size, turns);
    }
}

#endif
