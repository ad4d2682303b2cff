/* Mean of each window of [H, W, C]: the portable truth, in the words of average_s8.h. */
#include "average_s8.h"
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"

/* How many of `taps` positions, from `start` on in steps of `dilation`, lie in first..last-1. */
static int32_t avgpool_taps(int32_t start, int32_t taps, int32_t dilation, int32_t first, int32_t last) {
    int32_t count = 0;
    for (int32_t k = 0; k < taps; k++) {
        const int32_t i = start + k * dilation;
        count += i >= first && i < last;
    }
    return count;
}

/* Sum of channel c over the elements of the window from row `top` and column `left` on that exist. */
static GE_SUM avgpool_window(const GE_PARAMS *p, const ge_rows *x, int32_t top, int32_t left, int32_t c) {
    GE_SUM sum = 0;
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

/* One output row, whose windows begin at row `top`. */
static void avgpool_row(const GE_PARAMS *p, const ge_rows *x, GE_CONSTANTS int32_t top, GE_ELEMENT *o) {
    const int32_t down = avgpool_taps(top, p->kernel_h, p->dilation_h, GE_TOP(p), GE_BOTTOM(p));
    const int32_t rows = GE_INSIDE(avgpool_taps(top, p->kernel_h, p->dilation_h, 0, p->in_h));
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        const int32_t left = ox * p->stride_w - p->pad_left;
        const int32_t across = avgpool_taps(left, p->kernel_w, p->dilation_w, GE_LEFT(p), GE_RIGHT(p));
        const int32_t elements = rows * GE_INSIDE(avgpool_taps(left, p->kernel_w, p->dilation_w, 0, p->in_w));
        for (int32_t c = 0; c < p->channels; c++) {
            *o++ = GE_MEAN(p, avgpool_window(p, x, top, left, c), elements, down, across);
        }
    }
}

static void ge_avgpool(const GE_PARAMS *p, const ge_rows *x, GE_CONSTANTS const ge_rows *out, int32_t first_row,
                       int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        avgpool_row(p, x, GE_PASSED y * p->stride_h - p->pad_top, (GE_ELEMENT *)ge_row(out, y));
    }
}
