/* Mean of each window of float32 [H, W, C], in portable C. It adds tap by tap and then divides the sum. */
#include "ge.h"
#include "ge_float.h"
#include "ge_params.h"

/* Returns how many of `taps` positions, from `start` on in steps of `dilation`, lie in first..last-1. */
static int32_t avgpool_f32_taps(int32_t start, int32_t taps, int32_t dilation, int32_t first, int32_t last) {
    int32_t count = 0;
    for (int32_t k = 0; k < taps; k++) {
        const int32_t i = start + k * dilation;
        count += i >= first && i < last;
    }
    return count;
}

/* Computes the sums of the four channels from c on over those elements of the window from row `top` and column `left`
 * on that lie inside the input. Past the last channel, the last channel is repeated. */
static void avgpool_f32_window(const ge_avgpool_f32_params *p, const ge_rows *x, int32_t top, int32_t left, int32_t c,
                               float sums[4]) {
    const int32_t last = p->channels - 1;
    const int32_t at[4] = {c, c + 1 < last ? c + 1 : last, c + 2 < last ? c + 2 : last, c + 3 < last ? c + 3 : last};
    float a = 0.0f, b = 0.0f, d = 0.0f, e = 0.0f;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = top + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h) {
            continue;
        }
        const float *row = (const float *)ge_row(x, iy);
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = left + kx * p->dilation_w;
            if (ix >= 0 && ix < p->in_w) {
                const float *const from = row + ix * p->channels;
                a += from[at[0]];
                b += from[at[1]];
                d += from[at[2]];
                e += from[at[3]];
            }
        }
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = d;
    sums[3] = e;
}

static void ge_avgpool_f32(const ge_avgpool_f32_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                           int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t top = y * p->stride_h - p->pad_top;
        const int32_t rows = avgpool_f32_taps(top, p->kernel_h, p->dilation_h, p->count_top, p->count_bottom);
        float *o = (float *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int32_t left = ox * p->stride_w - p->pad_left;
            const int32_t columns = avgpool_f32_taps(left, p->kernel_w, p->dilation_w, p->count_left, p->count_right);
            const float count = (float)(rows * columns);
            float sums[4];
            for (int32_t c = 0; c < p->channels; c++) {
                if (c % 4 == 0) {
                    avgpool_f32_window(p, x, top, left, c, sums);
                }
                *o++ = ge_clamp_f32(sums[c % 4] / count, p->lo, p->hi);
            }
        }
    }
}
