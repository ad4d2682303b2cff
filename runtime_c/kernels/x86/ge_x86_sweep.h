/* Rows of int8 images with padding, and their columns for a sweep along an output row, with AVX512-VNNI.
 *
 * Four input rows are read in place, become elements x + 128 in registers and are interleaved to quads. Bytes outside
 * the image and after the last byte in use are not read: a mask puts the zero point in their place.
 *
 * Levels without GE_X86_SWEEP never call these functions.
 */
#ifndef GE_X86_SWEEP_H
#define GE_X86_SWEEP_H

#include "ge_params.h"
#include "ge_x86_portable.h"

#if GE_X86_SWEEP

typedef struct {
    const int8_t *row[4]; /* column 0 of the image */
    int32_t columns;      /* of the image */
    int32_t pitch;        /* bytes from column to column */
    int32_t pixels;       /* adjacent columns in a register */
    int32_t bytes;        /* bytes of a register that are in use */
    int32_t apart;        /* bytes in a register from pixel to pixel */
    __m512i outside;      /* elements of padding */
    __mmask64 used;       /* the bytes of a register with one pixel that are in use */
} ge_x86_sweep;

static inline GE_X86_INLINE void ge_x86_sweep_begin(ge_x86_sweep *s, int32_t zero_point) {
    s->outside = _mm512_set1_epi8((char)(zero_point + 128));
}

/* Loads four inputs that are not elements yet, for all outputs. */
static inline GE_X86_INLINE ge_x86_input ge_x86_input_raw(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_xor_si512(_mm512_set1_epi32(four), _mm512_set1_epi8(-128));
}

/* A mask of the first `count` bytes, 0 to 64. */
static inline GE_X86_INLINE __mmask64 ge_x86_sweep_first(int32_t count) {
    return count > 0 ? ~(__mmask64)0 >> (64 - count) : 0;
}

/* Writes `count` elements: inputs to `middle` of them from number `left` on, padding to the others. */
static inline GE_X86_INLINE void ge_x86_expand_row(ge_x86_element *to, const int8_t *from, int32_t left, int32_t middle,
                                                   int32_t count, ge_x86_element zero) {
    if (count > 64) {
        ge_x86_fill(to, zero, left);
        ge_x86_expand(to + left, from, middle);
        ge_x86_fill(to + left + middle, zero, count - left - middle);
        return;
    }
    const __mmask64 inside = ge_x86_sweep_first(left + middle) & ~ge_x86_sweep_first(left);
    const __m512i flip = _mm512_mask_mov_epi8(_mm512_set1_epi8((char)zero), inside, _mm512_set1_epi8(-128));
    const __m512i x = _mm512_maskz_loadu_epi8(inside, from - left);
    _mm512_mask_storeu_epi8(to, ge_x86_sweep_first(count), _mm512_xor_si512(x, flip));
}

/* The sums of 64 positions from which two rows begin, loaded once. */
static inline GE_X86_INLINE ge_x86_lanes ge_x86_sweep_sums(const int32_t *bias) {
    ge_x86_lanes sums = ge_x86_lanes_load(bias, 0);
    GE_X86_UNROLL
    for (int32_t i = 0; i < 4; i++) {
        __asm__("" : "+v"(sums.q[i])); /* otherwise gcc loads it twice, and loads are what limits a sweep */
    }
    return sums;
}

/* Loads the quads of the channels from `c` on of a column of the image, or of padding. */
static inline GE_X86_INLINE ge_x86_quads ge_x86_sweep_column(const ge_x86_sweep *s, int32_t column, int32_t c) {
    const ge_x86_quads outside = {{s->outside, s->outside, s->outside, s->outside}};
    const ptrdiff_t at = (ptrdiff_t)column * s->pitch + c;
    const __m512i flip = _mm512_set1_epi8(-128);
    __m512i x[4];
    if ((uint32_t)column >= (uint32_t)s->columns) {
        return outside;
    }
    GE_X86_UNROLL
    for (int32_t r = 0; r < 4; r++) {
        x[r] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(s->used, s->row[r] + at), flip);
    }
    return ge_x86_quads_of(x[0], x[1], x[2], x[3]);
}

/* Loads the quads of the pixels from this column on, for the channels from `c` on. */
static inline GE_X86_INLINE ge_x86_quads ge_x86_sweep_columns(const ge_x86_sweep *s, int32_t column, int32_t c) {
    const int32_t first = column < 0 ? -column : 0, right = s->columns - column;
    const int32_t behind = right < s->pixels ? right : s->pixels;
    const __mmask64 inside = ge_x86_sweep_first((behind - first) * s->apart) << (first * s->apart & 63);
    const ptrdiff_t at = (ptrdiff_t)column * s->pitch + c;
    const __m512i flip = _mm512_mask_mov_epi8(s->outside, inside, _mm512_set1_epi8(-128));
    __m512i x[4];
    GE_X86_UNROLL
    for (int32_t r = 0; r < 4; r++) {
        x[r] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(inside, s->row[r] + at), flip);
    }
    return ge_x86_quads_of(x[0], x[1], x[2], x[3]);
}

#else

static inline GE_X86_INLINE ge_x86_input ge_x86_input_raw(const int8_t *x) {
    return ge_x86_input_at((const ge_x86_element *)(const void *)x);
}

static inline GE_X86_INLINE void ge_x86_expand_row(ge_x86_element *to, const int8_t *from, int32_t left, int32_t middle,
                                                   int32_t count, ge_x86_element zero) {
    ge_x86_fill(to, zero, left);
    ge_x86_expand(to + left, from, middle);
    ge_x86_fill(to + left + middle, zero, count - left - middle);
}

typedef struct {
    const int8_t *row[4];
    int32_t columns;
    int32_t pitch;
    int32_t pixels;
    int32_t bytes;
    int32_t apart;
    uint64_t used;
} ge_x86_sweep;

static inline GE_X86_INLINE void ge_x86_sweep_begin(ge_x86_sweep *s, int32_t zero_point) {
    (void)s;
    (void)zero_point;
}

static inline GE_X86_INLINE ge_x86_quads ge_x86_sweep_column(const ge_x86_sweep *s, int32_t column, int32_t c) {
    ge_x86_quads quads;
    (void)s;
    (void)column;
    (void)c;
    memset(&quads, 0, sizeof quads);
    return quads;
}

static inline GE_X86_INLINE ge_x86_quads ge_x86_sweep_columns(const ge_x86_sweep *s, int32_t column, int32_t c) {
    return ge_x86_sweep_column(s, column, c);
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_sweep_sums(const int32_t *bias) {
    return ge_x86_lanes_load(bias, 0);
}

static inline GE_X86_INLINE uint64_t ge_x86_sweep_first(int32_t count) {
    return (uint64_t)count;
}

#endif

/* Expands input row iy of a convolution, or padding: `columns` columns from -pad_left on. */
__attribute__((unused)) static GE_X86_FN void ge_x86_expand_input(const ge_conv2d_params *p, const ge_rows *x,
                                                                  int32_t iy, int32_t columns, ge_x86_element *to) {
    const int32_t inside = iy >= 0 && iy < p->in_h ? p->in_w : 0;
    const int32_t left = p->pad_left < columns ? p->pad_left : columns;
    const int32_t middle = inside < columns - left ? inside : columns - left;
    const int8_t *const from = (const int8_t *)ge_row(x, inside > 0 ? iy : 0);
    ge_x86_expand_row(to, from, left * p->in_c, (middle > 0 ? middle : 0) * p->in_c, columns * p->in_c,
                      (ge_x86_element)(p->in_zero_point + 128));
}

#endif
