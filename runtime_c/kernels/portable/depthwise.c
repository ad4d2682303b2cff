/* Depthwise convolution of integers [H, W, C] with weights [kh, kw, O], O a multiple of C, in portable C. */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"
#include "sums_s8.h"

/* Returns the sum of output channel oc at (y, ox); c is the input channel that it reads. */
static GE_SUM depthwise_window(const GE_PARAMS(ge_conv2d) * p, const ge_rows *x, const GE_WEIGHT *weights, int32_t y,
                               int32_t ox, int32_t oc, int32_t c, int32_t weight_zero) {
    const GE_WEIGHT *w = weights + oc;
    GE_SUM sum = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        const GE_ELEMENT *row = iy >= 0 && iy < p->in_h ? (const GE_ELEMENT *)ge_row(x, iy) : NULL;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
            const int32_t inside = row != NULL && ix >= 0 && ix < p->in_w;
            sum += (inside ? row[ix * p->in_c + c] : p->in_zero_point) * (*w - weight_zero);
            w += p->out_c;
        }
    }
    return sum;
}

static void ge_depthwise(const GE_PARAMS(ge_conv2d) * p, const ge_rows *x, GE_CONSTANTS, const ge_rows *out,
                         int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t per_channel = p->out_c / p->in_c;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        GE_ELEMENT *o = (GE_ELEMENT *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t oc = 0; oc < p->out_c; oc++) {
                const GE_SUM sum =
                    bias[oc] + depthwise_window(p, x, weights, y, ox, oc, oc / per_channel, GE_WEIGHT_ZERO(oc));
                *o++ = GE_FINISH(p, sum, oc);
            }
        }
    }
}
