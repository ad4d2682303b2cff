/* Transposed convolution of int8 [H, W, C] with int8 weights [O, kh, kw, C/groups]: the portable truth. */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"

/* The input index that tap * dilation steps lead to from an output index, or -1 where there is none. */
static int32_t conv_transpose2d_s8_source(int32_t out, int32_t tap, int32_t dilation, int32_t pad, int32_t stride,
                                          int32_t count) {
    const int32_t at = out + pad - tap * dilation;
    if (at < 0 || at % stride != 0 || at / stride >= count) {
        return -1;
    }
    return at / stride;
}

/* Sum of products of one output channel over the channels of one tap. */
static int32_t conv_transpose2d_s8_dot(const int8_t *x, const int8_t *w, int32_t count, int32_t zero_point) {
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += (x[i] - zero_point) * w[i];
    }
    return sum;
}

/* The sum for output (y, ox) whose weights start at w and whose group starts at input channel c0. */
static int32_t conv_transpose2d_s8_window(const ge_conv_transpose2d_params *p, const ge_rows *x, const int8_t *w,
                                          int32_t y, int32_t ox, int32_t c0) {
    const int32_t depth = p->in_c / p->groups;
    int32_t sum = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = conv_transpose2d_s8_source(y, ky, p->dilation_h, p->pad_top, p->stride_h, p->in_h);
        if (iy < 0) {
            continue;
        }
        const int8_t *row = (const int8_t *)ge_row(x, iy) + c0;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = conv_transpose2d_s8_source(ox, kx, p->dilation_w, p->pad_left, p->stride_w, p->in_w);
            if (ix >= 0) {
                const int8_t *tap = w + (ky * p->kernel_w + kx) * depth;
                sum += conv_transpose2d_s8_dot(row + ix * p->in_c, tap, depth, p->in_zero_point);
            }
        }
    }
    return sum;
}

static void ge_conv_transpose2d_s8(const ge_conv_transpose2d_params *p, const ge_rows *x, const int8_t *weights,
                                   const int32_t *bias, const int32_t *multiplier, const ge_rows *out,
                                   int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t taps = p->kernel_h * p->kernel_w * (p->in_c / p->groups);
    const int32_t group_out = p->out_c / p->groups;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t oc = 0; oc < p->out_c; oc++) {
                const int32_t c0 = oc / group_out * (p->in_c / p->groups);
                const int32_t acc = bias[oc] + conv_transpose2d_s8_window(p, x, weights + oc * taps, y, ox, c0);
                *o++ = ge_requantize(acc, multiplier, oc, p->shift, p->out_zero_point, p->lo, p->hi);
            }
        }
    }
}
