/* Transposed convolution of float32 [H, W, C] with weights [O, kh, kw, C/groups], in portable C. The sum begins with
 * the bias, to which the products are added tap by tap and channel by channel. */
#include "ge.h"
#include "ge_float.h"
#include "ge_params.h"

/* Returns the input index from which tap `tap` contributes to output index `out`, or -1 if there is none. */
static int32_t conv_transpose2d_f32_source(int32_t out, int32_t tap, int32_t dilation, int32_t pad, int32_t stride,
                                           int32_t count) {
    const int32_t at = out + pad - tap * dilation;
    if (at < 0 || at % stride != 0 || at / stride >= count) {
        return -1;
    }
    return at / stride;
}

static float conv_transpose2d_f32_dot(float sum, const float *x, const float *w, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        sum += x[i] * w[i];
    }
    return sum;
}

/* Returns `sum` plus the products of output (y, ox), whose weights begin at w and whose group begins at input channel
 * c0. */
static float conv_transpose2d_f32_window(const ge_conv_transpose2d_f32_params *p, const ge_rows *x, const float *w,
                                         int32_t y, int32_t ox, int32_t c0, float sum) {
    const int32_t depth = p->in_c / p->groups;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = conv_transpose2d_f32_source(y, ky, p->dilation_h, p->pad_top, p->stride_h, p->in_h);
        if (iy < 0) {
            continue;
        }
        const float *row = (const float *)ge_row(x, iy) + c0;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = conv_transpose2d_f32_source(ox, kx, p->dilation_w, p->pad_left, p->stride_w, p->in_w);
            if (ix >= 0) {
                const float *tap = w + (ky * p->kernel_w + kx) * depth;
                sum = conv_transpose2d_f32_dot(sum, row + ix * p->in_c, tap, depth);
            }
        }
    }
    return sum;
}

static void ge_conv_transpose2d_f32(const ge_conv_transpose2d_f32_params *p, const ge_rows *x, const float *weights,
                                    const float *bias, const ge_rows *out, int32_t first_row, int32_t last_row,
                                    void *scratch) {
    const int32_t taps = p->kernel_h * p->kernel_w * (p->in_c / p->groups);
    const int32_t group_out = p->out_c / p->groups;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        float *o = (float *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t oc = 0; oc < p->out_c; oc++) {
                const int32_t c0 = oc / group_out * (p->in_c / p->groups);
                const float sum = conv_transpose2d_f32_window(p, x, weights + oc * taps, y, ox, c0, bias[oc]);
                *o++ = ge_clamp_f32(sum, p->lo, p->hi);
            }
        }
    }
}
