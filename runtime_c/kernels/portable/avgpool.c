/* Mean of each window of int8 or int16 [H, W, C], in portable C, under the names of average_s8.h. Instead of dividing,
 * it multiplies by one of a table's multipliers: one for each number of rows and columns that can count.
 *
 * avgpool_f32.c and avgpool_tflite_s8.c divide instead. They have files of their own, because their code made from this
 * file is 12 to 36 and 92 to 333 bytes larger (-O2 for M0, M3, M4, M55, riscv32, x86-64; M4 532 -> 560 and 384 ->
 * 572). */
#include "average_s8.h"
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"

/* Returns how many of `taps` positions, from `start` on in steps of `dilation`, lie in first..last-1. */
static int32_t avgpool_taps(int32_t start, int32_t taps, int32_t dilation, int32_t first, int32_t last) {
    int32_t count = 0;
    for (int32_t k = 0; k < taps; k++) {
        const int32_t i = start + k * dilation;
        count += i >= first && i < last;
    }
    return count;
}

/* Returns the sum of channel c over those elements of the window from row `top` and column `left` on that lie inside
 * the input. */
static int32_t avgpool_window(const ge_avgpool_params *p, const ge_rows *x, int32_t top, int32_t left, int32_t c) {
    int32_t sum = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = top + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h) {
            continue;
        }
        const GE_ELEMENT *row = (const GE_ELEMENT *)ge_row(x, iy);
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = left + kx * p->dilation_w;
            if (ix >= 0 && ix < p->in_w) {
                sum += GE_TERM(p, row[ix * p->channels + c]);
            }
        }
    }
    return sum;
}

/* Computes one output row, whose windows begin at row `top`. */
static void avgpool_row(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier, int32_t top,
                        GE_ELEMENT *o) {
    const int32_t rows = GE_INSIDE(avgpool_taps(top, p->kernel_h, p->dilation_h, 0, p->in_h));
    const int32_t down = avgpool_taps(top, p->kernel_h, p->dilation_h, p->count_top, p->count_bottom);
    const int32_t first = (down - p->min_rows) * p->table_columns - p->min_columns;
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        const int32_t left = ox * p->stride_w - p->pad_left;
        const int32_t columns = GE_INSIDE(avgpool_taps(left, p->kernel_w, p->dilation_w, 0, p->in_w));
        const int32_t across = avgpool_taps(left, p->kernel_w, p->dilation_w, p->count_left, p->count_right);
        const int32_t zero = GE_ZERO(p, rows * columns);
        const int32_t divisor = GE_DIVISOR(first, across);
        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t sum = avgpool_window(p, x, top, left, c) - zero;
            *o++ = GE_MEAN(p, sum, first, divisor);
        }
    }
}

static void ge_avgpool(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier, const ge_rows *out,
                       int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        avgpool_row(p, x, multiplier, y * p->stride_h - p->pad_top, (GE_ELEMENT *)ge_row(out, y));
    }
}
