/* Transposed convolution of integers [H, W, C] with weights [O, kh, kw, C/groups], in portable C. */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"
#include "sums_s8.h"

/* Returns the input index from which tap `tap` contributes to output index `out`, or -1 if there is none. */
static int32_t conv_transpose2d_source(int32_t out, int32_t tap, int32_t dilation, int32_t pad, int32_t stride,
                                       int32_t count) {
    const int32_t at = out + pad - tap * dilation;
    if (at < 0 || at % stride != 0 || at / stride >= count) {
        return -1;
    }
    return at / stride;
}

/* Returns `sum` plus the products of one output channel over the channels of one tap. */
static GE_SUM conv_transpose2d_dot(GE_SUM sum, const GE_ELEMENT *x, int32_t zero_point, const GE_WEIGHT *w,
                                   int32_t weight_zero, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        sum += (GE_SUM)(x[i] - zero_point) * (w[i] - weight_zero);
    }
    return sum;
}

/* Returns `sum` plus the products of output (y, ox), whose weights begin at w and whose group begins at input channel
 * c0. */
static GE_SUM conv_transpose2d_window(const GE_PARAMS(ge_conv_transpose2d) * p, const ge_rows *x, const GE_WEIGHT *w,
                                      int32_t weight_zero, int32_t y, int32_t ox, int32_t c0, GE_SUM sum) {
    const int32_t depth = p->in_c / p->groups;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = conv_transpose2d_source(y, ky, p->dilation_h, p->pad_top, p->stride_h, p->in_h);
        if (iy < 0) {
            continue;
        }
        const GE_ELEMENT *row = (const GE_ELEMENT *)ge_row(x, iy) + c0;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = conv_transpose2d_source(ox, kx, p->dilation_w, p->pad_left, p->stride_w, p->in_w);
            if (ix >= 0) {
                const GE_WEIGHT *tap = w + (ky * p->kernel_w + kx) * depth;
                sum = conv_transpose2d_dot(sum, row + ix * p->in_c, p->in_zero_point, tap, weight_zero, depth);
            }
        }
    }
    return sum;
}

static void ge_conv_transpose2d(const GE_PARAMS(ge_conv_transpose2d) * p, const ge_rows *x, GE_CONSTANTS,
                                const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t taps = p->kernel_h * p->kernel_w * (p->in_c / p->groups);
    const int32_t group_out = p->out_c / p->groups;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        GE_ELEMENT *o = (GE_ELEMENT *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t oc = 0; oc < p->out_c; oc++) {
                const int32_t c0 = oc / group_out * (p->in_c / p->groups);
                const GE_SUM sum =
                    conv_transpose2d_window(p, x, weights + oc * taps, GE_WEIGHT_ZERO(oc), y, ox, c0, bias[oc]);
                *o++ = GE_FINISH(p, sum, oc);
            }
        }
    }
}
