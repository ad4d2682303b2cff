/* Mean of each window of int8 [H, W, C] with one scale for input and output, with the bits of TensorFlow Lite Micro, in
 * portable C. Halves are rounded away from zero, and padding does not count. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

/* Returns the mean of channel c over those elements of the window from row `top` and column `left` on that lie inside
 * the input. */
static int32_t avgpool_tflite_s8_mean(const ge_avgpool_same_params *p, const ge_rows *x, int32_t top, int32_t left,
                                      int32_t c) {
    int32_t sum = 0;
    int32_t count = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = top + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h) {
            continue;
        }
        const int8_t *row = (const int8_t *)ge_row(x, iy);
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = left + kx * p->dilation_w;
            if (ix >= 0 && ix < p->in_w) {
                sum += row[ix * p->channels + c];
                count++;
            }
        }
    }
    if (count == 0) {
        return 0; /* never reached: the op refuses windows that see only padding */
    }
    return (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
}

static void ge_avgpool_tflite_s8(const ge_avgpool_same_params *p, const ge_rows *x, const ge_rows *out,
                                 int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t c = 0; c < p->channels; c++) {
                const int32_t left = ox * p->stride_w - p->pad_left;
                const int32_t mean = avgpool_tflite_s8_mean(p, x, y * p->stride_h - p->pad_top, left, c);
                *o++ = (int8_t)ge_clamp(mean, p->lo, p->hi);
            }
        }
    }
}
