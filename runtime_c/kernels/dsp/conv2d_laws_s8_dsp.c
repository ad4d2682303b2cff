/* Convolution of int8 [H, W, C] with int8 weights [O, kh, kw, C] for any law, for Cortex-M4, M7 and M33: one group, and
 * adjacent taps in a row. Weights may have zero points; their product with the sum of a window is then subtracted. It
 * computes two output channels at a time; padding is a row of zero points in the scratch. Cost: about 2.2 cycles per
 * product, and the law's requantization; the portable kernel takes 7.6. */
#include "ge.h"
#include "ge_dsp_dot.h"
#include "ge_law.h"
#include "ge_params.h"
#include "sums_s8.h"

#define CONV2D_LAWS_S8_DSP_ASYMMETRIC 0 /* 1: weights have zero points */

/* The numbers of a row of taps: `before` in padding, `inside` the image, then padding again. */
typedef struct {
    int32_t first; /* column of the image */
    int32_t before, inside, row;
} conv2d_laws_s8_dsp_span;

static conv2d_laws_s8_dsp_span conv2d_laws_s8_dsp_span_of(const ge_conv2d_params *p, int32_t ox) {
    const int32_t left = ox * p->stride_w - p->pad_left;
    const int32_t begin = left < 0 ? 0 : left;
    const int32_t end = left + p->kernel_w < p->in_w ? left + p->kernel_w : p->in_w;
    const conv2d_laws_s8_dsp_span span = {begin, (begin - left) * p->in_c, (end - begin) * p->in_c,
                                          p->kernel_w * p->in_c};
    return span;
}

/* Computes the sums of two channels, whose weights begin at a and b. */
static void conv2d_laws_s8_dsp_window(const ge_conv2d_params *p, const ge_rows *x, const int8_t *a, const int8_t *b,
                                      int32_t y, const conv2d_laws_s8_dsp_span *span, const int8_t *padding,
                                      int32_t *sums) {
    const int32_t behind = span->before + span->inside;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h || span->inside <= 0) {
            ge_dsp_dot(padding, a, b, span->row, sums);
        } else {
            ge_dsp_dot(padding, a, b, span->before, sums);
            ge_dsp_dot((const int8_t *)ge_row(x, iy) + span->first * p->in_c, a + span->before, b + span->before,
                       span->inside, sums);
            ge_dsp_dot(padding, a + behind, b + behind, span->row - behind, sums);
        }
        a += span->row;
        b += span->row;
    }
}

/* Returns the sum of all inputs of a window. */
static int32_t conv2d_laws_s8_dsp_total(const ge_conv2d_params *p, const ge_rows *x, int32_t y,
                                        const conv2d_laws_s8_dsp_span *span) {
    int32_t sum = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        const int32_t inside = iy < 0 || iy >= p->in_h || span->inside <= 0 ? 0 : span->inside;
        if (inside > 0) {
            sum = ge_dsp_add((const int8_t *)ge_row(x, iy) + span->first * p->in_c, inside, sum);
        }
        sum += (span->row - inside) * p->in_zero_point;
    }
    return sum;
}

static void ge_conv2d_laws_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, GE_CONSTANTS, const ge_rows *out,
                                  int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t taps = p->kernel_h * p->kernel_w * p->in_c;
    int8_t *const padding = (int8_t *)scratch;
    for (int32_t i = 0; i < p->kernel_w * p->in_c; i++) {
        padding[i] = (int8_t)p->in_zero_point;
    }
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const conv2d_laws_s8_dsp_span span = conv2d_laws_s8_dsp_span_of(p, ox);
            const int32_t total = CONV2D_LAWS_S8_DSP_ASYMMETRIC ? conv2d_laws_s8_dsp_total(p, x, y, &span) : 0;
            for (int32_t oc = 0; oc < p->out_c; oc += 2) {
                const int32_t other = oc + 1 < p->out_c ? oc + 1 : oc;
                int32_t sums[2] = {bias[oc] - GE_WEIGHT_ZERO(oc) * total, bias[other] - GE_WEIGHT_ZERO(other) * total};
                conv2d_laws_s8_dsp_window(p, x, weights + oc * taps, weights + other * taps, y, &span, padding, sums);
                o[other] = ge_requantize(sums[1], multiplier, other, p->shift, p->out_zero_point, p->lo, p->hi);
                o[oc] = ge_requantize(sums[0], multiplier, oc, p->shift, p->out_zero_point, p->lo, p->hi);
            }
            o += p->out_c;
        }
    }
}
