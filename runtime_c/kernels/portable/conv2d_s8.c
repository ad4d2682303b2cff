/* Convolution of int8 [H, W, C] with int8 weights [O, kh, kw, C/groups]: the portable truth. */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"

/* Sum of products of one output channel over the channels of one tap. */
static int32_t conv2d_s8_dot(const int8_t *x, const int8_t *w, int32_t count) {
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += x[i] * w[i];
    }
    return sum;
}

/* A tap that lies in the padding sees the input's zero point. */
static int32_t conv2d_s8_padding(const int8_t *w, int32_t count, int32_t zero_point) {
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += w[i];
    }
    return sum * zero_point;
}

/* The accumulator of output (y, ox) whose weights start at w and whose group starts at input channel c0. */
static int32_t conv2d_s8_window(const ge_conv2d_params *p, const ge_rows *x, const int8_t *w, int32_t y, int32_t ox,
                                int32_t c0) {
    const int32_t depth = p->in_c / p->groups;
    int32_t sum = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        const int8_t *row = iy >= 0 && iy < p->in_h ? (const int8_t *)ge_row(x, iy) : NULL;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
            if (row != NULL && ix >= 0 && ix < p->in_w) {
                sum += conv2d_s8_dot(row + ix * p->in_c + c0, w, depth);
            } else {
                sum += conv2d_s8_padding(w, depth, p->in_zero_point);
            }
            w += depth;
        }
    }
    return sum;
}

static void ge_conv2d_s8(const ge_conv2d_params *p, const ge_rows *x, const int8_t *weights, const int32_t *bias,
                         const int32_t *multiplier, const ge_rows *out, int32_t first_row, int32_t last_row,
                         void *scratch) {
    const int32_t taps = p->kernel_h * p->kernel_w * (p->in_c / p->groups);
    const int32_t group_out = p->out_c / p->groups;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            for (int32_t oc = 0; oc < p->out_c; oc++) {
                const int32_t c0 = oc / group_out * (p->in_c / p->groups);
                const int32_t acc = bias[oc] + conv2d_s8_window(p, x, weights + oc * taps, y, ox, c0);
                *o++ = ge_requantize(acc, multiplier, oc, p->shift, p->out_zero_point, p->lo, p->hi);
            }
        }
    }
}
