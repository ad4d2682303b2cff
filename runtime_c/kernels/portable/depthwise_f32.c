/* Depthwise convolution of float32 [H, W, C] with weights [kh, kw, O], O a multiple of C, in portable C. The sum begins
 * with the bias, to which the products are added tap by tap; padding is skipped. */
#include "ge.h"
#include "ge_float.h"
#include "ge_params.h"

/* Returns `sum` plus the products of the window at (y, ox). w: the weights of one output channel; c: the input channel
 * that it reads. */
static float depthwise_f32_window(const ge_conv2d_f32_params *p, const ge_rows *x, const float *w, int32_t y,
                                  int32_t ox, int32_t c, float sum) {
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h) {
            continue;
        }
        const float *row = (const float *)ge_row(x, iy);
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
            if (ix >= 0 && ix < p->in_w) {
                sum += row[ix * p->in_c + c] * w[(ky * p->kernel_w + kx) * p->out_c];
            }
        }
    }
    return sum;
}

static void ge_depthwise_f32(const ge_conv2d_f32_params *p, const ge_rows *x, const float *weights, const float *bias,
                             const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t per_channel = p->out_c / p->in_c;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        float *o = (float *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t oc = 0; oc < p->out_c; oc++) {
                const float sum = depthwise_f32_window(p, x, weights + oc, y, ox, oc / per_channel, bias[oc]);
                *o++ = ge_clamp_f32(sum, p->lo, p->hi);
            }
        }
    }
}
