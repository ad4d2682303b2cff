/* Windows of the Helium average pools: which taps are inside the input, which of them count, and the sums of all
 * channels. */
#ifndef GE_MVE_AVERAGE_H
#define GE_MVE_AVERAGE_H

#include "ge_mve_pool.h"
#include "ge_params.h"

typedef struct {
    const int8_t **row; /* in scratch: input rows that the windows of an output row read; kernel_h at most */
    int32_t *sums;      /* in scratch: sums of the window, one per channel */
    int32_t rows;       /* how many rows exist */
    int32_t first;      /* multiplier for 0 columns that count */
    int32_t multiplier; /* the multiplier that divides this window */
    int32_t zero;       /* the sum of the zero points in the window */
} ge_mve_window;

/* Returns the windows of output row y. */
static inline ge_mve_window ge_mve_windows_of(const ge_avgpool_params *p, const ge_rows *x, int32_t y, void *scratch) {
    ge_mve_window w = {0};
    const int32_t top = y * p->stride_h - p->pad_top;
    const int32_t begin = ge_mve_taps_before(top, p->kernel_h, p->dilation_h, 0);
    const int32_t end = ge_mve_taps_before(top, p->kernel_h, p->dilation_h, p->in_h);
    const int32_t down = ge_mve_taps_before(top, p->kernel_h, p->dilation_h, p->count_bottom) -
                         ge_mve_taps_before(top, p->kernel_h, p->dilation_h, p->count_top);
    w.row = (const int8_t **)scratch;
    w.sums = (int32_t *)(w.row + p->kernel_h);
    w.rows = end - begin;
    w.first = (down - p->min_rows) * p->table_columns - p->min_columns;
    for (int32_t k = begin; k < end; k++) {
        w.row[k - begin] = (const int8_t *)ge_row(x, top + k * p->dilation_h);
    }
    return w;
}

/* Sums the window in output column ox. */
static inline void ge_mve_window_sum(const ge_avgpool_params *p, ge_mve_window *w, int32_t ox) {
    const int32_t left = ox * p->stride_w - p->pad_left;
    const int32_t begin = ge_mve_taps_before(left, p->kernel_w, p->dilation_w, 0);
    const int32_t columns = ge_mve_taps_before(left, p->kernel_w, p->dilation_w, p->in_w) - begin;
    w->multiplier = w->first + ge_mve_taps_before(left, p->kernel_w, p->dilation_w, p->count_right) -
                    ge_mve_taps_before(left, p->kernel_w, p->dilation_w, p->count_left);
    w->zero = w->rows * columns * p->in_zero_point;
    ge_mve_fill((int8_t *)w->sums, 0, 4 * p->channels);
    if (w->rows > 0 && columns > 0) {
        ge_mve_add_rows(w->row, w->rows, (left + begin * p->dilation_w) * p->channels, columns,
                        p->dilation_w * p->channels, p->channels, w->sums);
    }
}

#endif
