/* Linear resize of int8 [H, W, C], C at least 4, whose columns are doubled with half-pixel coordinates, for Cortex-M4,
 * M7 and M33.
 *
 * Four channels are computed at a time, in the half-words of two words, as unsigned numbers: x + 128 is in 0..255, and
 * 16 times the weights of an output sum to 256, so an output is the upper byte of a half-word. v = 16 * (w0 * above +
 * w1 * below) + 32 holds the rows of one column, and the rounding; output columns 2i and 2i + 1 are 3 v[i] + v[i - 1]
 * and 3 v[i] + v[i + 1], at the edges with v[i] itself in place of the missing one. A column is loaded once for both.
 * docs/adding-an-op.md states the cycles. */
#include "ge.h"
#include "ge_params.h"

#define RESIZE_DOUBLE_S8_DSP_SIGNS 0x80808080u
#define RESIZE_DOUBLE_S8_DSP_UPPER 0xFF00FF00u
#define RESIZE_DOUBLE_S8_DSP_ROUNDING 0x00200020u

/* Channels 0 and 2, and 1 and 3, of a column, each in a half-word. */
typedef struct {
    uint32_t even, odd;
} resize_double_s8_dsp_sums;

typedef struct {
    const int8_t *above, *below;
    uint32_t of_above, of_below; /* 16 times the weights */
    uint32_t rounding;
} resize_double_s8_dsp_lines;

/* Returns bytes 0 and 2. */
static inline uint32_t resize_double_s8_dsp_even(uint32_t x) {
    uint32_t y;
    __asm__("uxtb16 %0, %1" : "=r"(y) : "r"(x));
    return y;
}

static inline uint32_t resize_double_s8_dsp_odd(uint32_t x) {
    uint32_t y;
    __asm__("uxtb16 %0, %1, ror #8" : "=r"(y) : "r"(x));
    return y;
}

/* Computes a * b + c by MLA: the compiler would change the order of the sums. */
static inline uint32_t resize_double_s8_dsp_add(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t y;
    __asm__("mla %0, %1, %2, %3" : "=r"(y) : "r"(a), "r"(b), "r"(c));
    return y;
}

__attribute__((always_inline)) static inline resize_double_s8_dsp_sums
resize_double_s8_dsp_column(const resize_double_s8_dsp_lines *l, int32_t at) {
    resize_double_s8_dsp_sums v;
    uint32_t a, b;
    memcpy(&a, l->above + at, 4);
    memcpy(&b, l->below + at, 4);
    a ^= RESIZE_DOUBLE_S8_DSP_SIGNS;
    b ^= RESIZE_DOUBLE_S8_DSP_SIGNS;
    v.even = resize_double_s8_dsp_add(resize_double_s8_dsp_even(a), l->of_above, l->rounding);
    v.odd = resize_double_s8_dsp_add(resize_double_s8_dsp_odd(a), l->of_above, l->rounding);
    v.even = resize_double_s8_dsp_add(resize_double_s8_dsp_even(b), l->of_below, v.even);
    v.odd = resize_double_s8_dsp_add(resize_double_s8_dsp_odd(b), l->of_below, v.odd);
    return v;
}

/* Stores the upper bytes of four sums. */
__attribute__((always_inline)) static inline void resize_double_s8_dsp_store(int8_t *o, uint32_t even, uint32_t odd) {
    const uint32_t y =
        (resize_double_s8_dsp_odd(even) | (odd & RESIZE_DOUBLE_S8_DSP_UPPER)) ^ RESIZE_DOUBLE_S8_DSP_SIGNS;
    memcpy(o, &y, 4);
}

/* Computes four channels of an output row. */
static void resize_double_s8_dsp_four(const ge_resize_params *p, const resize_double_s8_dsp_lines *lines, int8_t *o) {
    const resize_double_s8_dsp_lines l = *lines;
    const int32_t step = p->channels, end = p->in_w * step;
    resize_double_s8_dsp_sums left = resize_double_s8_dsp_column(&l, 0), here = left;
    for (int32_t at = step; at != end; at += step) {
        const resize_double_s8_dsp_sums right = resize_double_s8_dsp_column(&l, at);
        const uint32_t even = here.even * 3u, odd = here.odd * 3u;
        resize_double_s8_dsp_store(o, even + left.even, odd + left.odd);
        resize_double_s8_dsp_store(o + step, even + right.even, odd + right.odd);
        o += 2 * step;
        left = here;
        here = right;
    }
    resize_double_s8_dsp_store(o, here.even * 3u + left.even, here.odd * 3u + left.odd);
    resize_double_s8_dsp_store(o + step, here.even * 4u, here.odd * 4u);
}

static void ge_resize_double_s8_dsp(const ge_resize_params *p, const ge_rows *x, const int32_t *row_at,
                                    const int16_t *row_weight, const int32_t *column_at, const int16_t *column_weight,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)column_at;
    (void)column_weight;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        for (int32_t c = 0; c < p->channels; c += 4) {
            const int32_t channel = c + 4 <= p->channels ? c : p->channels - 4;
            const resize_double_s8_dsp_lines lines = {
                (const int8_t *)ge_row(x, row_at[2 * y]) + channel,
                (const int8_t *)ge_row(x, row_at[2 * y + 1]) + channel, 16u * (uint32_t)row_weight[2 * y],
                16u * (uint32_t)row_weight[2 * y + 1], RESIZE_DOUBLE_S8_DSP_ROUNDING};
            resize_double_s8_dsp_four(p, &lines, o + channel);
        }
    }
}
