/* Windows of the average pools of Cortex-M4, M7 and M33: which elements count, and the sums of all channels. */
#ifndef GE_DSP_AVERAGE_H
#define GE_DSP_AVERAGE_H

#include "ge.h"
#include "ge_dsp_pool.h"
#include "ge_params.h"

#define GE_DSP_POOL_SMALL 32 /* elements of a window that is summed at once */

/* Sums the channels of all elements of a window. Rows that are contiguous, as in a mean over the image, are taken
 * together. */
static inline void ge_dsp_sums(const ge_avgpool_params *p, const ge_rows *x, const ge_dsp_window *w, int32_t *sums) {
    const int32_t whole = w->right - w->left == p->in_w && x->slots == NULL && x->stride == p->in_w * p->channels;
    const int32_t rows = whole ? 1 : w->bottom - w->top;
    const int32_t length = (w->right - w->left) * (whole ? w->bottom - w->top : 1);
    memset(sums, 0, (size_t)p->channels * sizeof *sums);
    for (int32_t y = w->top; y < w->top + rows; y++) {
        const int8_t *from = (const int8_t *)ge_row(x, y) + w->left * p->channels;
        ge_dsp_add_long(from, p->channels, length, sums);
    }
}

/* Sums four channels of all elements of a window that has at most 256 of them. */
static inline void ge_dsp_small_sums(const ge_avgpool_params *p, const ge_rows *x, const ge_dsp_window *w,
                                     int32_t channel, int32_t *sums) {
    int32_t even = 0, odd = 0;
    for (int32_t y = w->top; y < w->bottom; y++) {
        const int8_t *from = (const int8_t *)ge_row(x, y) + w->left * p->channels + channel;
        for (int32_t i = w->left; i < w->right; i++) {
            int32_t s;
            __asm__("    ldr.w %[s], [%[from]]\n"
                    "    add.w %[from], %[from], %[step]\n"
                    "    sxtab16 %[even], %[even], %[s]\n"
                    "    sxtab16 %[odd], %[odd], %[s], ror #8\n"
                    : [even] "+&r"(even), [odd] "+&r"(odd), [from] "+&r"(from), [s] "=&r"(s)
                    : [step] "r"((int32_t)p->channels)
                    : "memory");
        }
    }
    sums[0] = (int16_t)even;
    sums[1] = (int16_t)odd;
    sums[2] = even >> 16;
    sums[3] = odd >> 16;
}

/* Returns how many of `taps` positions from `start` on lie in first..last-1. */
static inline int32_t ge_dsp_taps(int32_t start, int32_t taps, int32_t first, int32_t last) {
    const int32_t begin = start < first ? first : start;
    const int32_t end = start + taps < last ? start + taps : last;
    return end > begin ? end - begin : 0;
}

typedef struct {
    int32_t zero;  /* the sum of the zero points in the window */
    int32_t entry; /* the multiplier that divides the window */
} ge_dsp_average;

/* Returns the window at (y, ox), and writes the sums of its channels. */
static inline ge_dsp_average ge_dsp_average_of(const ge_avgpool_params *p, const ge_rows *x, int32_t y, int32_t ox,
                                               int32_t *sums) {
    const int32_t top = y * p->stride_h - p->pad_top;
    const int32_t left = ox * p->stride_w - p->pad_left;
    const int32_t down = ge_dsp_taps(top, p->kernel_h, p->count_top, p->count_bottom);
    const int32_t across = ge_dsp_taps(left, p->kernel_w, p->count_left, p->count_right);
    const ge_dsp_window w = ge_dsp_window_of(top, left, p->kernel_h, p->kernel_w, p->in_h, p->in_w);
    const int32_t elements = ge_dsp_taps(top, p->kernel_h, 0, p->in_h) * ge_dsp_taps(left, p->kernel_w, 0, p->in_w);
    const ge_dsp_average a = {elements * p->in_zero_point,
                              (down - p->min_rows) * p->table_columns + across - p->min_columns};
    if (elements > GE_DSP_POOL_SMALL) {
        ge_dsp_sums(p, x, &w, sums);
    } else {
        for (int32_t c = 0; c < p->channels; c += 4) {
            const int32_t channel = c < p->channels - 4 ? c : p->channels - 4;
            ge_dsp_small_sums(p, x, &w, channel, sums + channel);
        }
    }
    return a;
}

#endif
