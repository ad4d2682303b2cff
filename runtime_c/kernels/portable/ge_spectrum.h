/* The Fourier transform of audio front ends for features.c, in portable C.
 *
 * glowembed/law/spectrum.py defines the arithmetic. Complex numbers are pairs of words.
 */
#ifndef GE_SPECTRUM_H
#define GE_SPECTRUM_H

#include "ge.h"

#define GE_SPECTRUM_HEADROOM_MAX 14

/* (x * w) >> 32. */
static inline int32_t ge_spectrum_part(int32_t x, int32_t w) {
    return (int32_t)(((int64_t)x * w) >> 32);
}

/* y + ((x * w) >> 32). */
static inline int32_t ge_spectrum_more(int32_t y, int32_t x, int32_t w) {
    return y + ge_spectrum_part(x, w);
}

/* y + (-(x * w) >> 32). */
static inline int32_t ge_spectrum_less(int32_t y, int32_t x, int32_t w) {
    return y + (int32_t)(-((int64_t)x * w) >> 32);
}

static inline int32_t ge_spectrum_zeros(uint32_t x) {
    int32_t n = 0;
    for (int32_t bits = 16; bits > 0; bits >>= 1) {
        if (x < ((uint32_t)1 << (32 - bits))) {
            x <<= bits;
            n += bits;
        }
    }
    return x == 0u ? 32 : n;
}

static inline int32_t ge_spectrum_headroom(const int16_t *x, int32_t count) {
    int32_t signs = 0;
    for (int32_t i = 0; i < count; i++) {
        signs |= x[i] ^ (x[i] >> 15);
    }
    const int32_t h = ge_spectrum_zeros((uint32_t)signs) - 17;
    return h < GE_SPECTRUM_HEADROOM_MAX ? h : GE_SPECTRUM_HEADROOM_MAX;
}

/* Computes the transform of four complex numbers and writes it to places `apart` words from each other. `a` may be at
 * z. */
static inline void ge_spectrum_four(int32_t *z, int32_t apart, const int32_t *a, const int32_t *b, const int32_t *c,
                                    const int32_t *d) {
    for (int32_t j = 0; j < 2; j++) {
        const int32_t turned = j == 0 ? b[1] - d[1] : d[0] - b[0];
        z[j] = a[j] + b[j] + c[j] + d[j];
        z[j + apart] = a[j] - c[j] + turned;
        z[j + 2 * apart] = a[j] - b[j] + c[j] - d[j];
        z[j + 3 * apart] = a[j] - c[j] - turned;
    }
}

/* Multiplies two samples by the window. */
static inline void ge_spectrum_pair(const int16_t *x, const int32_t *window, int32_t n, int32_t *z) {
    z[0] = (int32_t)(((int64_t)window[2 * n] * x[2 * n]) >> 16);
    z[1] = (int32_t)(((int64_t)window[2 * n + 1] * x[2 * n + 1]) >> 16);
}

/* Computes the first transforms, of 4 or 2 numbers each, shifted up by the headroom. Returns their size. */
static inline int32_t ge_spectrum_first(const int16_t *x, const int32_t *window, const uint16_t *order, int32_t half,
                                        int32_t h, int32_t *z) {
    const int32_t size = (ge_spectrum_zeros((uint32_t)half) & 1) != 0 ? 4 : 2;
    const int32_t groups = half / size;
    for (int32_t g = 0; g < groups; g++) {
        int32_t in[4][2];
        for (int32_t j = 0; j < size; j++) {
            ge_spectrum_pair(x, window, order[g] + j * groups, in[j]);
        }
        if (size == 4) {
            ge_spectrum_four(z, 2, in[0], in[1], in[2], in[3]);
        } else {
            for (int32_t j = 0; j < 2; j++) {
                z[j] = in[0][j] + in[1][j];
                z[j + 2] = in[0][j] - in[1][j];
            }
        }
        for (int32_t j = 0; j < 2 * size; j++, z++) {
            *z *= (int32_t)1 << h;
        }
    }
    return size;
}

/* Multiplies z by the conjugate of w and divides by 4. */
static inline void ge_spectrum_turn(const int32_t *z, const int32_t *w, int32_t *out) {
    out[0] = ge_spectrum_more(ge_spectrum_part(z[0], w[0]), z[1], w[1]);
    out[1] = ge_spectrum_less(ge_spectrum_part(z[1], w[0]), z[0], w[1]);
}

/* Combines transforms of `size` numbers into transforms of 4 * size. */
static inline void ge_spectrum_stage(int32_t *z, int32_t half, int32_t size, const int32_t *turns) {
    for (int32_t k = 0; k < size; k++) {
        const int32_t *w = turns + 6 * k * (half / 4 / size);
        for (int32_t i = 2 * k; i < 2 * half; i += 8 * size) {
            const int32_t a[2] = {z[i] >> 2, z[i + 1] >> 2};
            int32_t b[2];
            int32_t c[2];
            int32_t d[2];
            ge_spectrum_turn(z + i + 2 * size, w, b);
            ge_spectrum_turn(z + i + 4 * size, w + 2, c);
            ge_spectrum_turn(z + i + 6 * size, w + 4, d);
            ge_spectrum_four(z + i, 2 * size, a, b, c, d);
        }
    }
}

#endif
