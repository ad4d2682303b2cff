/* 3x3 depthwise convolution with a vertical stride of 1, in pairs of rows: for AVX2, which multiplies pairs of int16.
 *
 * Two rows of input lie in scratch as [columns][channels][2]: a vector holds pairs of taps, one above the other, of 8
 * channels, and is an operand of VPMADDWD without conversion. Two such rows of pairs hold the inputs of two output
 * rows, and the lower one is the upper one of the next two. An output row takes six products for a pixel of 8 channels:
 * (w0 w1)(w2 0) in the upper row of output, (0 w0)(w1 w2) in the lower one.
 *
 * A tile is up to five pixels of 32 channels, 8 at a time: six registers hold weights, one the sum of each pixel, and
 * each vector of the input is loaded once for the up to three pixels that use it. 32 outputs are packed and stored at
 * once. The remainder, and all layers whose columns are not adjacent, are computed pixel by pixel, 8 channels at a
 * time.
 *
 * Levels without GE_X86_ROW_PAIRS never call these functions.
 */
#ifndef GE_X86_ROW_PAIRS_H
#define GE_X86_ROW_PAIRS_H

#include "ge_params.h"
#include "ge_x86_portable.h"

#if GE_X86_ROW_PAIRS

/* Number of elements of the weights of 8 channels for one output row, [3 columns][2 pairs][8][2]. */
#define GE_X86_ROW_PAIRS_WEIGHTS 96

/* The most pixels of a tile. */
#define GE_X86_ROW_PAIRS_PIXELS 5

/* Loads the constants of number `unit` of the 8 times 8 channels of a group, which are in the order of lanes. */
static inline GE_X86_INLINE __m256i ge_x86_row_pairs_at(const void *group, int32_t unit) {
    const int32_t *const from = (const int32_t *)group + unit % 2 * 32 + unit / 2 * 4;
    return ge_x86_pieces(from, from + 16);
}

/* Rearranges [group][column][2 output rows][64 lanes][4 taps] to [channels / 8][2 output
 * rows][GE_X86_ROW_PAIRS_WEIGHTS]. */
static GE_X86_FN void ge_x86_row_pairs_weights(const int8_t *image, int32_t channels, ge_x86_element *to) {
    for (int32_t unit = 0; unit < channels / 8; unit++) {
        const int8_t *const group = image + unit / 8 * 1536;
        for (int32_t row = 0; row < 2; row++) {
            for (int32_t column = 0; column < 3; column++) {
                __m256i pair[2];
                ge_x86_widen(ge_x86_row_pairs_at(group + 512 * column + 256 * row, unit % 8), pair);
                _mm256_storeu_si256((__m256i *)(void *)to, pair[0]);
                _mm256_storeu_si256((__m256i *)(void *)(to + 16), pair[1]);
                to += 32;
            }
        }
    }
}

/* Writes the elements of two rows as pairs; a row that is NULL is all `zero`. */
static GE_X86_FN void ge_x86_row_pairs_expand(ge_x86_element *to, const int8_t *a, const int8_t *b, int32_t count,
                                              ge_x86_element zero) {
    const __m128i padding = _mm_set1_epi8((char)(zero - 128));
    const __m256i up = _mm256_set1_epi16(128);
    int32_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const __m128i x = a == NULL ? padding : _mm_loadu_si128((const __m128i *)(const void *)(a + i));
        const __m128i y = b == NULL ? padding : _mm_loadu_si128((const __m128i *)(const void *)(b + i));
        const __m256i low = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(x, y));
        const __m256i high = _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(x, y));
        _mm256_storeu_si256((__m256i *)(void *)(to + 2 * i), _mm256_add_epi16(low, up));
        _mm256_storeu_si256((__m256i *)(void *)(to + 2 * i + 16), _mm256_add_epi16(high, up));
    }
    for (; i < count; i++) {
        to[2 * i] = (ge_x86_element)(a == NULL ? zero : a[i] + 128);
        to[2 * i + 1] = (ge_x86_element)(b == NULL ? zero : b[i] + 128);
    }
}

/* Inputs and constants of an output row. */
typedef struct {
    const ge_x86_element *upper; /* rows of pairs */
    const ge_x86_element *lower;
    const ge_x86_element *weights; /* of 8 channels; those of the next 8 lie 2 * GE_X86_ROW_PAIRS_WEIGHTS elements
                                    * later */
    const int32_t *bias;           /* [group][64 lanes] */
    const int32_t *multiplier;
    const float *scale;
    ptrdiff_t step; /* elements from pixel to pixel of the output */
    ptrdiff_t tap;  /* elements from column to column of the kernel */
    int32_t channels;
    int32_t pixels;
    int32_t size; /* pixels of a tile; 0: there are no tiles */
    ge_x86_law law;
} ge_x86_row_pairs;

/* Computes an output row of 8 channels, from channel `c` on; `exact` is a constant. */
static inline GE_X86_INLINE void ge_x86_row_pairs_eight(const ge_x86_row_pairs *s, int32_t c,
                                                        const ge_x86_element *weights, int8_t *o, const int32_t exact) {
    const ge_x86_element *upper = s->upper + 2 * c, *lower = s->lower + 2 * c;
    const ptrdiff_t step = s->step, tap = s->tap, channels = s->channels;
    const int32_t group = c / 64 * 64, unit = c % 64 / 8;
    const __m256i bias = ge_x86_row_pairs_at(s->bias + group, unit);
    const __m256i multiplier = ge_x86_row_pairs_at(s->multiplier + group, unit);
    const __m256 scale = _mm256_castsi256_ps(ge_x86_row_pairs_at(s->scale + group, unit));
    const ge_x86_law law = s->law;
    __m256i w[6];
    GE_X86_UNROLL
    for (int32_t i = 0; i < 6; i++) {
        w[i] = ge_x86_at(weights + 16 * i);
    }
    for (int32_t pixel = s->pixels; pixel > 0; pixel--) {
        __m256i y = bias;
        GE_X86_UNROLL
        for (int32_t k = 0; k < 3; k++) {
            y = _mm256_add_epi32(y, _mm256_madd_epi16(w[2 * k], ge_x86_at(upper + k * tap)));
            y = _mm256_add_epi32(y, _mm256_madd_epi16(w[2 * k + 1], ge_x86_at(lower + k * tap)));
        }
        if (exact) {
            const __m256 f = _mm256_fmadd_ps(_mm256_cvtepi32_ps(y), scale, law.magic);
            y = _mm256_sub_epi32(_mm256_castps_si256(f), law.magic_bits);
        } else {
            y = ge_x86_multiply(y, multiplier, &law);
        }
        const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
        const __m128i bytes = _mm_max_epi8(_mm_packs_epi16(words, words), _mm256_castsi256_si128(law.lo));
        _mm_storel_epi64((__m128i *)(void *)o, _mm_min_epi8(bytes, _mm256_castsi256_si128(law.hi)));
        upper += step;
        lower += step;
        o += channels;
    }
}

/* Computes 32 channels of `pixels` pixels (a constant) from number `pixel` on; columns are adjacent and scales
 * exact. */
static inline GE_X86_INLINE void ge_x86_row_pairs_tile(const ge_x86_row_pairs *s, int32_t c, int32_t pixel, int8_t *o,
                                                       const int32_t pixels) {
    const ptrdiff_t tap = s->tap;
    const ge_x86_element *upper = s->upper + pixel * tap + 2 * c, *lower = s->lower + pixel * tap + 2 * c;
    const ge_x86_element *weights = s->weights + c / 8 * (2 * GE_X86_ROW_PAIRS_WEIGHTS);
    const __m256 magic = s->law.magic;
    const __m256i magic_bits = s->law.magic_bits;
    __m256i all[GE_X86_ROW_PAIRS_PIXELS][4];
    GE_X86_UNROLL
    for (int32_t q = 0; q < 4; q++) {
        const __m256i bias = ge_x86_row_pairs_at(s->bias + c / 64 * 64, c % 64 / 8 + q);
        const __m256 scale = _mm256_castsi256_ps(ge_x86_row_pairs_at(s->scale + c / 64 * 64, c % 64 / 8 + q));
        __m256i w[6], y[GE_X86_ROW_PAIRS_PIXELS];
        GE_X86_UNROLL
        for (int32_t i = 0; i < 6; i++) {
            w[i] = ge_x86_at(weights + 16 * i);
        }
        GE_X86_UNROLL
        for (int32_t column = 0; column < pixels + 2; column++) {
            const __m256i a = ge_x86_at(upper + column * tap), b = ge_x86_at(lower + column * tap);
            GE_X86_UNROLL
            for (int32_t k = 0; k < 3; k++) {
                const int32_t i = column - k;
                if (i >= 0 && i < pixels) {
                    const __m256i both =
                        _mm256_add_epi32(_mm256_madd_epi16(w[2 * k], a), _mm256_madd_epi16(w[2 * k + 1], b));
                    y[i] = _mm256_add_epi32(k == 0 ? bias : y[i], both);
                }
            }
        }
        GE_X86_UNROLL
        for (int32_t i = 0; i < pixels; i++) {
            const __m256 f = _mm256_fmadd_ps(_mm256_cvtepi32_ps(y[i]), scale, magic);
            all[i][q] = _mm256_sub_epi32(_mm256_castps_si256(f), magic_bits);
        }
        weights += 2 * GE_X86_ROW_PAIRS_WEIGHTS;
        upper += 16;
        lower += 16;
    }
    GE_X86_UNROLL
    for (int32_t i = 0; i < pixels; i++) {
        const __m256i packed =
            _mm256_packs_epi16(_mm256_packs_epi32(all[i][0], all[i][1]), _mm256_packs_epi32(all[i][2], all[i][3]));
        _mm256_storeu_si256((__m256i *)(void *)(o + (pixel + i) * s->channels + c), ge_x86_clamped(packed, &s->law));
    }
}

/* Computes an output row of 32 channels in tiles; the last one overlaps the one before. */
#define GE_X86_ROW_PAIRS_TILES(size)                                                                                   \
    static GE_X86_FN GE_IN_ORDER void GE_X86_LEVEL(ge, _row_pairs_tiles_##size)(const ge_x86_row_pairs *s, int32_t c,  \
                                                                                int8_t *o) {                           \
        for (int32_t done = 0; done < s->pixels; done += size) {                                                       \
            ge_x86_row_pairs_tile(s, c, done + size <= s->pixels ? done : s->pixels - size, o, size);                  \
        }                                                                                                              \
    }
GE_X86_ROW_PAIRS_TILES(5)
GE_X86_ROW_PAIRS_TILES(4)
GE_X86_ROW_PAIRS_TILES(3)
GE_X86_ROW_PAIRS_TILES(1)

/* Returns the tile size with the fewest pixels computed twice, the largest of these. */
static GE_X86_FN int32_t ge_x86_row_pairs_size(int32_t pixels) {
    int32_t best = 1;
    for (int32_t size = 3; size <= GE_X86_ROW_PAIRS_PIXELS; size++) {
        const int32_t computed = (pixels + size - 1) / size * size;
        best = size <= pixels && (best == 1 || computed <= (pixels + best - 1) / best * best) ? size : best;
    }
    return best;
}

static GE_X86_FN void ge_x86_row_pairs_32(const ge_x86_row_pairs *s, int32_t c, int8_t *o) {
    switch (s->size) {
    case 5:
        ge_x86_row_pairs_tiles_5(s, c, o);
        break;
    case 4:
        ge_x86_row_pairs_tiles_4(s, c, o);
        break;
    case 3:
        ge_x86_row_pairs_tiles_3(s, c, o);
        break;
    default:
        ge_x86_row_pairs_tiles_1(s, c, o);
        break;
    }
}

static GE_NOINLINE GE_X86_FN void ge_x86_row_pairs_row(const ge_x86_row_pairs *s, int8_t *o) {
    int32_t c = 0;
    for (; c + 32 <= s->channels && s->size > 0 && s->scale[c / 64 * 64] >= 0.0f; c += 32) {
        ge_x86_row_pairs_32(s, c, o);
    }
    const ge_x86_element *weights = s->weights + c / 8 * (2 * GE_X86_ROW_PAIRS_WEIGHTS);
    for (; c < s->channels; c += 8) {
        if (s->scale[c / 64 * 64] >= 0.0f) {
            ge_x86_row_pairs_eight(s, c, weights, o + c, 1);
        } else {
            ge_x86_row_pairs_eight(s, c, weights, o + c, 0);
        }
        weights += 2 * GE_X86_ROW_PAIRS_WEIGHTS;
    }
}

/* Fills in the row of pairs whose upper half is input row iy, with `columns` columns from -pad_left on; the lower half
 * is padding where it is not needed. */
static GE_X86_FN void ge_x86_row_pairs_fill(const ge_conv2d_params *p, const ge_rows *x, int32_t iy, int32_t both,
                                            int32_t columns, ge_x86_element *to) {
    const int8_t *const a = iy >= 0 && iy < p->in_h ? (const int8_t *)ge_row(x, iy) : NULL;
    const int8_t *const b = both && iy + 1 >= 0 && iy + 1 < p->in_h ? (const int8_t *)ge_row(x, iy + 1) : NULL;
    const int32_t left = p->pad_left < columns ? p->pad_left : columns;
    const int32_t middle = p->in_w < columns - left ? p->in_w : columns - left;
    const ge_x86_element zero = (ge_x86_element)(p->in_zero_point + 128);
    ge_x86_fill(to, zero, 2 * left * p->in_c);
    ge_x86_row_pairs_expand(to + 2 * left * p->in_c, a, b, middle * p->in_c, zero);
    ge_x86_fill(to + 2 * (left + middle) * p->in_c, zero, 2 * (columns - left - middle) * p->in_c);
}

/* Computes a whole layer. Scratch: weights, and two rows of pairs. Other constants are [group][64 lanes]. */
static GE_NOINLINE GE_X86_FN void ge_x86_row_pairs_layer(const ge_conv2d_params *p, const ge_rows *x,
                                                         const int8_t *weights, const int32_t *bias,
                                                         const int32_t *multiplier, const float *scale,
                                                         const ge_rows *out, int32_t first_row, int32_t last_row,
                                                         void *scratch) {
    const int32_t columns = (p->out_w - 1) * p->stride_w + 2 * p->dilation_w + 1;
    ge_x86_element *const taps = (ge_x86_element *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    ge_x86_element *upper = taps + 2 * GE_X86_ROW_PAIRS_WEIGHTS * (p->in_c / 8), *lower = upper + 2 * columns * p->in_c;
    ge_x86_row_pairs s;
    s.bias = bias;
    s.multiplier = multiplier;
    s.scale = scale;
    s.step = 2 * p->stride_w * p->in_c;
    s.tap = 2 * p->dilation_w * p->in_c;
    s.channels = p->in_c;
    s.pixels = p->out_w;
    s.size = p->stride_w == 1 && p->dilation_w == 1 ? ge_x86_row_pairs_size(p->out_w) : 0;
    s.law = ge_x86_law_of(p->shift, p->out_zero_point, p->lo, p->hi);
    ge_x86_row_pairs_weights(weights, p->in_c, taps);
    ge_x86_row_pairs_fill(p, x, first_row - p->pad_top, 1, columns, upper);
    for (int32_t y = first_row; y < last_row; y += 2) {
        const int32_t rows = last_row - y > 1 ? 2 : 1;
        ge_x86_row_pairs_fill(p, x, y + 2 - p->pad_top, rows == 2, columns, lower);
        s.upper = upper;
        s.lower = lower;
        for (int32_t r = 0; r < rows; r++) {
            s.weights = taps + GE_X86_ROW_PAIRS_WEIGHTS * r;
            ge_x86_row_pairs_row(&s, (int8_t *)ge_row(out, y + r));
        }
        upper = lower;
        lower = (ge_x86_element *)(uintptr_t)s.upper;
    }
}

#else

static GE_NOINLINE GE_X86_FN void ge_x86_row_pairs_layer(const ge_conv2d_params *p, const ge_rows *x,
                                                         const int8_t *weights, const int32_t *bias,
                                                         const int32_t *multiplier, const float *scale,
                                                         const ge_rows *out, int32_t first_row, int32_t last_row,
                                                         void *scratch) {
    (void)p;
    (void)x;
    (void)weights;
    (void)bias;
    (void)multiplier;
    (void)scale;
    (void)out;
    (void)first_row;
    (void)last_row;
    (void)scratch;
}

#endif

#endif
