/* Convolution of integers [H, W, C] with weights [O, kh, kw, C/groups], in portable C. */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"
#include "sums_s8.h"

/* Returns the sum of a tap in the padding, which reads the input's zero point. */
static GE_SUM conv2d_padding(const GE_WEIGHT *w, int32_t count, int32_t zero_point, int32_t weight_zero) {
    GE_SUM sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += w[i] - weight_zero;
    }
    return sum * zero_point;
}

/* Returns the sum of output (y, ox), whose weights begin at w and whose group begins at input channel c0. */
static GE_SUM conv2d_window(const GE_PARAMS(ge_conv2d) * p, const ge_rows *x, const GE_WEIGHT *w, int32_t weight_zero,
                            int32_t y, int32_t ox, int32_t c0) {
    const int32_t depth = p->in_c / p->groups;
    GE_SUM sum = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        const GE_ELEMENT *row = iy >= 0 && iy < p->in_h ? (const GE_ELEMENT *)ge_row(x, iy) : NULL;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
            if (row != NULL && ix >= 0 && ix < p->in_w) {
                sum = GE_DOT(p, sum, row + ix * p->in_c + c0, w, depth, weight_zero);
            } else {
                sum += conv2d_padding(w, depth, p->in_zero_point, weight_zero);
            }
            w += depth;
        }
    }
    return sum;
}

static void ge_conv2d(const GE_PARAMS(ge_conv2d) * p, const ge_rows *x, GE_CONSTANTS, const ge_rows *out,
                      int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t taps = p->kernel_h * p->kernel_w * (p->in_c / p->groups);
    const int32_t group_out = p->out_c / p->groups;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        GE_ELEMENT *o = (GE_ELEMENT *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t oc = 0; oc < p->out_c; oc++) {
                const int32_t c0 = oc / group_out * (p->in_c / p->groups);
                const GE_SUM sum = bias[oc] + conv2d_window(p, x, weights + oc * taps, GE_WEIGHT_ZERO(oc), y, ox, c0);
                *o++ = GE_FINISH(p, sum, oc);
            }
        }
    }
}
