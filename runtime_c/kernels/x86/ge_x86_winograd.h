/* 3x3 convolution with stride 1 by Winograd's F(2x2, 3x3), in exact integers: a square of 2 x 2 outputs from a square
 * of 4 x 4 inputs takes 16 products for each input channel instead of 36.
 *
 * d: 4 x 4 inputs of a channel, g: 3 x 3 weights; Bt = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1], At = [1 1 1 0; 0 1 -1
 * -1] and, so that all numbers are integers, twice the usual G = [2 0 0; 1 1 1; 1 -1 1; 0 0 2]. The sums over channels
 * of (G g Gt) * (Bt d B), point by point, are 16 matrix products; At (sums) A is four times the outputs. Inputs 0..255
 * give at most 1020, weights +-127 at most 1143: int16. Sums may wrap around, as four times an output fits int32 with
 * up to GE_X86_WINOGRAD_CHANNELS.
 *
 * It is faster where a product takes two instructions, which is the case with AVX2, for which it is written. Weights
 * are transformed once for 16 outputs and all squares of a few rows; points of weights are one cache line further apart
 * than necessary, as otherwise they would all map to the same few cache lines.
 *
 * Levels without GE_X86_WINOGRAD never call these functions.
 */
#ifndef GE_X86_WINOGRAD_H
#define GE_X86_WINOGRAD_H

#include "ge_x86_portable.h"

#define GE_X86_WINOGRAD_CHANNELS 1024
#define GE_X86_WINOGRAD_POINT(channels) (16 * (channels) + 32)

#if GE_X86_WINOGRAD

/* Transforms the weights of 16 outputs to points, [3][3 * channels / 4][16][4] -> [16 points][channels / 2][16][2],
 * with GE_X86_WINOGRAD_POINT words from point to point. */
static GE_X86_FN void ge_x86_winograd_weights(const int8_t *image, int32_t channels, int16_t *to) {
    const ptrdiff_t point = GE_X86_WINOGRAD_POINT(channels);
    for (int32_t at = 0; at < 16 * channels; at += 64) {
        for (int32_t h = 0; h < 2; h++) {
            __m256i first[4][3], second[4][3];
            GE_X86_UNROLL
            for (int32_t kx = 0; kx < 3; kx++) {
                __m256i g[3][2];
                GE_X86_UNROLL
                for (int32_t ky = 0; ky < 3; ky++) {
                    ge_x86_widen(ge_x86_at(image + 16 * channels * (3 * ky + kx) + at + 32 * h), g[ky]);
                }
                GE_X86_UNROLL
                for (int32_t i = 0; i < 2; i++) {
                    __m256i(*const column)[3] = i == 0 ? first : second;
                    const __m256i ends = _mm256_add_epi16(g[0][i], g[2][i]);
                    column[0][kx] = _mm256_slli_epi16(g[0][i], 1);
                    column[1][kx] = _mm256_add_epi16(ends, g[1][i]);
                    column[2][kx] = _mm256_sub_epi16(ends, g[1][i]);
                    column[3][kx] = _mm256_slli_epi16(g[2][i], 1);
                }
            }
            GE_X86_UNROLL
            for (int32_t i = 0; i < 2; i++) {
                __m256i(*const column)[3] = i == 0 ? first : second;
                GE_X86_UNROLL
                for (int32_t y = 0; y < 4; y++) {
                    const __m256i ends = _mm256_add_epi16(column[y][0], column[y][2]);
                    const __m256i points[4] = {_mm256_slli_epi16(column[y][0], 1), _mm256_add_epi16(ends, column[y][1]),
                                               _mm256_sub_epi16(ends, column[y][1]),
                                               _mm256_slli_epi16(column[y][2], 1)};
                    GE_X86_UNROLL
                    for (int32_t x = 0; x < 4; x++) {
                        int16_t *const o = to + point * (4 * y + x) + at + 32 * i + 16 * h;
                        _mm256_storeu_si256((__m256i *)(void *)o, points[x]);
                    }
                }
            }
        }
    }
}

/* Computes Bt d B of a square whose rows begin at rows[0..3]: points are `apart` words from each other, each with all
 * channels. */
static GE_X86_FN void ge_x86_winograd_inputs(const ge_x86_element *const rows[4], int32_t channels, int32_t apart,
                                             int16_t *to) {
    for (int32_t c = 0; c < channels; c += 16) {
        __m256i down[4][4];
        GE_X86_UNROLL
        for (int32_t x = 0; x < 4; x++) {
            const int32_t at = x * channels + c;
            const __m256i d1 = ge_x86_at(rows[1] + at), d2 = ge_x86_at(rows[2] + at);
            down[0][x] = _mm256_sub_epi16(ge_x86_at(rows[0] + at), d2);
            down[1][x] = _mm256_add_epi16(d1, d2);
            down[2][x] = _mm256_sub_epi16(d2, d1);
            down[3][x] = _mm256_sub_epi16(d1, ge_x86_at(rows[3] + at));
        }
        GE_X86_UNROLL
        for (int32_t y = 0; y < 4; y++) {
            const __m256i *const d = down[y];
            const __m256i points[4] = {_mm256_sub_epi16(d[0], d[2]), _mm256_add_epi16(d[1], d[2]),
                                       _mm256_sub_epi16(d[2], d[1]), _mm256_sub_epi16(d[1], d[3])};
            GE_X86_UNROLL
            for (int32_t x = 0; x < 4; x++) {
                _mm256_storeu_si256((__m256i *)(void *)(to + (4 * y + x) * apart + c), points[x]);
            }
        }
    }
}

/* Computes one of the 16 matrix products: `squares` (a constant) by 16 outputs. */
static inline GE_X86_INLINE void ge_x86_winograd_product(const int16_t *w, const int16_t *x, int32_t channels,
                                                         ge_x86_sums *to, const int32_t squares) {
    ge_x86_sums acc[6];
    GE_X86_UNROLL
    for (int32_t i = 0; i < squares; i++) {
        acc[i] = ge_x86_zero();
    }
    for (int32_t c = 0; c < channels; c += 2) {
        const ge_x86_weights pair = ge_x86_weights_at(w);
        GE_X86_UNROLL
        for (int32_t i = 0; i < squares; i++) {
            acc[i] = ge_x86_dot(acc[i], pair, ge_x86_input_at(x + i * channels + c));
        }
        w += 32;
    }
    GE_X86_UNROLL
    for (int32_t i = 0; i < squares; i++) {
        to[i] = acc[i];
    }
}

static GE_X86_FN void ge_x86_winograd_six(const int16_t *w, const int16_t *x, int32_t channels, ge_x86_sums *to) {
    ge_x86_winograd_product(w, x, channels, to, 6);
}

static GE_X86_FN void ge_x86_winograd_four(const int16_t *w, const int16_t *x, int32_t channels, ge_x86_sums *to) {
    ge_x86_winograd_product(w, x, channels, to, 4);
}

static GE_X86_FN void ge_x86_winograd_one(const int16_t *w, const int16_t *x, int32_t channels, ge_x86_sums *to) {
    ge_x86_winograd_product(w, x, channels, to, 1);
}

/* Computes At m A / 4 + bias: the sums of the square's outputs, rows then columns; the points in `m` are `apart` from
 * each other. */
static inline GE_X86_INLINE void ge_x86_winograd_outputs(const ge_x86_sums *m, int32_t apart, const int32_t *bias,
                                                         ge_x86_sums sums[4]) {
    GE_X86_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        const __m256i start = ge_x86_at(bias + 8 * h);
        __m256i down[2][4];
        GE_X86_UNROLL
        for (int32_t x = 0; x < 4; x++) {
            const __m256i m1 = m[(4 + x) * apart].half[h], m2 = m[(8 + x) * apart].half[h];
            down[0][x] = _mm256_add_epi32(_mm256_add_epi32(m[x * apart].half[h], m1), m2);
            down[1][x] = _mm256_sub_epi32(_mm256_sub_epi32(m1, m2), m[(12 + x) * apart].half[h]);
        }
        GE_X86_UNROLL
        for (int32_t y = 0; y < 2; y++) {
            const __m256i *const d = down[y];
            const __m256i left = _mm256_add_epi32(_mm256_add_epi32(d[0], d[1]), d[2]);
            const __m256i right = _mm256_sub_epi32(_mm256_sub_epi32(d[1], d[2]), d[3]);
            sums[2 * y].half[h] = _mm256_add_epi32(_mm256_srai_epi32(left, 2), start);
            sums[2 * y + 1].half[h] = _mm256_add_epi32(_mm256_srai_epi32(right, 2), start);
        }
    }
}

#else

static GE_X86_FN void ge_x86_winograd_weights(const int8_t *image, int32_t channels, int16_t *to) {
    (void)image;
    (void)channels;
    (void)to;
}

static GE_X86_FN void ge_x86_winograd_inputs(const ge_x86_element *const rows[4], int32_t channels, int32_t apart,
                                             int16_t *to) {
    (void)rows;
    (void)channels;
    (void)apart;
    (void)to;
}

static GE_X86_FN void ge_x86_winograd_six(const int16_t *w, const int16_t *x, int32_t channels, ge_x86_sums *to) {
    (void)w;
    (void)x;
    (void)channels;
    (void)to;
}

static GE_X86_FN void ge_x86_winograd_four(const int16_t *w, const int16_t *x, int32_t channels, ge_x86_sums *to) {
    ge_x86_winograd_six(w, x, channels, to);
}

static GE_X86_FN void ge_x86_winograd_one(const int16_t *w, const int16_t *x, int32_t channels, ge_x86_sums *to) {
    ge_x86_winograd_six(w, x, channels, to);
}

static inline GE_X86_INLINE void ge_x86_winograd_outputs(const ge_x86_sums *m, int32_t apart, const int32_t *bias,
                                                         ge_x86_sums sums[4]) {
    (void)m;
    (void)apart;
    for (int32_t i = 0; i < 4; i++) {
        sums[i] = ge_x86_load(bias);
    }
}

#endif

#endif
