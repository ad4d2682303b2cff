/* Transposed convolution of int16 [H, W, C] with int8 weights [O, kh, kw, C/groups]: the portable truth. */
#include "ge.h"
#include "ge_params.h"
#include "ge_wide.h"

#define CONV_TRANSPOSE2D_S16_WEIGHT int8_t /* or int16_t */

/* The input index that tap * dilation steps lead to from an output index, or -1 where there is none. */
static int32_t conv_transpose2d_s16_source(int32_t out, int32_t tap, int32_t dilation, int32_t pad, int32_t stride,
                                           int32_t count) {
    const int32_t at = out + pad - tap * dilation;
    if (at < 0 || at % stride != 0 || at / stride >= count) {
        return -1;
    }
    return at / stride;
}

static int64_t conv_transpose2d_s16_dot(const int16_t *x, const CONV_TRANSPOSE2D_S16_WEIGHT *w, int32_t count,
                                        int32_t zero_point) {
    int64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += (int64_t)(x[i] - zero_point) * w[i];
    }
    return sum;
}

/* `sum` plus the window of output (y, ox) whose weights start at w and whose group starts at input channel c0. */
static int64_t conv_transpose2d_s16_window(const ge_conv_transpose2d_s16_params *p, const ge_rows *x,
                                           const CONV_TRANSPOSE2D_S16_WEIGHT *w, int32_t y, int32_t ox, int32_t c0,
                                           int64_t sum) {
    const int32_t depth = p->in_c / p->groups;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = conv_transpose2d_s16_source(y, ky, p->dilation_h, p->pad_top, p->stride_h, p->in_h);
        if (iy < 0) {
            continue;
        }
        const int16_t *row = (const int16_t *)ge_row(x, iy) + c0;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = conv_transpose2d_s16_source(ox, kx, p->dilation_w, p->pad_left, p->stride_w, p->in_w);
            if (ix >= 0) {
                const CONV_TRANSPOSE2D_S16_WEIGHT *tap = w + (ky * p->kernel_w + kx) * depth;
                sum += conv_transpose2d_s16_dot(row + ix * p->in_c, tap, depth, p->in_zero_point);
            }
        }
    }
    return sum;
}

static void ge_conv_transpose2d_s16(const ge_conv_transpose2d_s16_params *p, const ge_rows *x,
                                    const CONV_TRANSPOSE2D_S16_WEIGHT *weights, const int64_t *bias,
                                    const int32_t *multiplier, const ge_rows *out, int32_t first_row, int32_t last_row,
                                    void *scratch) {
    const int32_t taps = p->kernel_h * p->kernel_w * (p->in_c / p->groups);
    const int32_t group_out = p->out_c / p->groups;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t oc = 0; oc < p->out_c; oc++) {
                const int32_t c0 = oc / group_out * (p->in_c / p->groups);
                const int64_t sum = conv_transpose2d_s16_window(p, x, weights + oc * taps, y, ox, c0, bias[oc]);
                *o++ = (int16_t)ge_requantize_wide(sum, multiplier[oc], p->shift, p->out_zero_point, p->lo, p->hi);
            }
        }
    }
}
