/* Largest element of each window of int16 [H, W, C] for Cortex-M4, M7 and M33: four channels at a time, any window.
 *
 * SSUB16 and SEL choose the larger of two channels. 2x2, stride 2: 4 cycles per element. */
#include "ge.h"
#include "ge_dsp_wide_pool.h"
#include "ge_params.h"

/* Returns the larger of each pair of two numbers. */
static inline uint32_t maxpool_s16_dsp_larger(uint32_t a, uint32_t b) {
    uint32_t larger;
    __asm__("ssub16 %[r], %[a], %[b]\n\tsel %[r], %[a], %[b]" : [r] "=&r"(larger) : [a] "r"(a), [b] "r"(b) : "cc");
    return larger;
}

/* Returns the largest of two channels at `x`, as a word, over the taps in `rows` and `columns` of a window; for the
 * last channel alone, `bytes` is that of one. */
static inline uint32_t maxpool_s16_dsp_window(const ge_pool_params *p, const ge_rows *x, const ge_dsp_wide_span *rows,
                                              const ge_dsp_wide_span *columns, int32_t top, int32_t left, int32_t c,
                                              size_t bytes) {
    const int32_t step = p->dilation_w * p->channels;
    uint32_t largest = 0x80008000u;
    for (int32_t ky = rows->first; ky < rows->last; ky++) {
        const int16_t *at = (const int16_t *)ge_row(x, top + ky * p->dilation_h) + c;
        at += (left + columns->first * p->dilation_w) * p->channels;
        for (int32_t kx = columns->first; kx < columns->last; kx++) {
            uint32_t word = 0;
            memcpy(&word, at, bytes);
            largest = maxpool_s16_dsp_larger(word, largest);
            at += step;
        }
    }
    return largest;
}

static void maxpool_s16_dsp_row(const ge_pool_params *p, const ge_rows *x, int32_t top, int16_t *o) {
    const ge_dsp_wide_span rows = ge_dsp_wide_span_of(top, p->kernel_h, p->dilation_h, p->in_h);
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        const int32_t left = ox * p->stride_w - p->pad_left;
        const ge_dsp_wide_span columns = ge_dsp_wide_span_of(left, p->kernel_w, p->dilation_w, p->in_w);
        int32_t c = 0;
        for (; c + 2 <= p->channels; c += 2) {
            const uint32_t two = maxpool_s16_dsp_window(p, x, &rows, &columns, top, left, c, 4);
            memcpy(o, &two, 4);
            o += 2;
        }
        if (c < p->channels) {
            *o++ = (int16_t)maxpool_s16_dsp_window(p, x, &rows, &columns, top, left, c, 2);
        }
    }
}

static void ge_maxpool_s16_dsp(const ge_pool_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                               int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        maxpool_s16_dsp_row(p, x, y * p->stride_h - p->pad_top, (int16_t *)ge_row(out, y));
    }
}
