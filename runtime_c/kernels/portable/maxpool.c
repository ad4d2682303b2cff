/* The maximum of each window of [H, W, C], without the padding, in portable C. */
#include "element_s8.h"
#include "ge.h"
#include "ge_params.h"

/* Returns the maximum of channel c in the window at (y, ox). */
static GE_ELEMENT maxpool_window(const ge_pool_params *p, const ge_rows *x, int32_t y, int32_t ox, int32_t c) {
    GE_ELEMENT largest = GE_ELEMENT_LEAST;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h) {
            continue;
        }
        const GE_ELEMENT *row = (const GE_ELEMENT *)ge_row(x, iy);
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
            if (ix >= 0 && ix < p->in_w && row[ix * p->channels + c] > largest) {
                largest = row[ix * p->channels + c];
            }
        }
    }
    return largest;
}

static void ge_maxpool(const ge_pool_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                       int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        GE_ELEMENT *o = (GE_ELEMENT *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t c = 0; c < p->channels; c++) {
                *o++ = maxpool_window(p, x, y, ox, c);
            }
        }
    }
}
