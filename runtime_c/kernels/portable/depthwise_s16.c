/* Depthwise convolution of int16 [H, W, C] with int8 weights [kh, kw, O], O a multiple of C: the portable truth. */
#include "ge.h"
#include "ge_params.h"
#include "ge_wide.h"

#define DEPTHWISE_S16_WEIGHT int8_t /* or int16_t */

/* The accumulator of output channel oc at (y, ox); c is the input channel that it reads. */
static int64_t depthwise_s16_window(const ge_conv2d_s16_params *p, const ge_rows *x,
                                    const DEPTHWISE_S16_WEIGHT *weights, int32_t y, int32_t ox, int32_t oc, int32_t c) {
    const DEPTHWISE_S16_WEIGHT *w = weights + oc;
    int64_t sum = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        const int16_t *row = iy >= 0 && iy < p->in_h ? (const int16_t *)ge_row(x, iy) : NULL;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
            const int32_t inside = row != NULL && ix >= 0 && ix < p->in_w;
            sum += (inside ? row[ix * p->in_c + c] : p->in_zero_point) * *w;
            w += p->out_c;
        }
    }
    return sum;
}

static void ge_depthwise_s16(const ge_conv2d_s16_params *p, const ge_rows *x, const DEPTHWISE_S16_WEIGHT *weights,
                             const int64_t *bias, const int32_t *multiplier, const ge_rows *out, int32_t first_row,
                             int32_t last_row, void *scratch) {
    const int32_t per_channel = p->out_c / p->in_c;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t oc = 0; oc < p->out_c; oc++) {
                const int64_t acc = bias[oc] + depthwise_s16_window(p, x, weights, y, ox, oc, oc / per_channel);
                *o++ = (int16_t)ge_requantize_wide(acc, multiplier[oc], p->shift, p->out_zero_point, p->lo, p->hi);
            }
        }
    }
}
