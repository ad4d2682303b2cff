/* Windows of the average pools of Cortex-M4, M7 and M33: which elements count, and the sums of all channels. */
#ifndef GE_DSP_AVERAGE_H
#define GE_DSP_AVERAGE_H

#include "ge.h"
#include "ge_dsp_pool.h"
#include "ge_params.h"

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
    ge_dsp_window_sums(x, &w, p->in_w, p->channels, sums);
    return a;
}

#endif
