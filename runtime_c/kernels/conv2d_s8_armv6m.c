/* Convolution of int8 [H, W, C] with int8 weights, one group, three sums in two words: Cortex-M0, M0+ and M1.
 *
 * The window of a pixel is copied into one piece, then multiplied by all channels, nine at a time (ge_isa_armv6m.h says
 * how, ge_threes.h what the constants are). No division and no test of borders in the inner loops.
 * Measured, instructions under QEMU: 1x1 64->64 25x5 1,236,705 (2.4 per MAC); 3x3 16->16 32x32 5,728,194 (2.4).
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_armv6m.h"
#include "ge_params.h"
#include "ge_threes.h"

/* Taps of a window that lie in the input: columns of the kernel from `first` to before `last`. */
typedef struct {
    int32_t first;
    int32_t last;
} conv2d_s8_armv6m_inside;

static conv2d_s8_armv6m_inside conv2d_s8_armv6m_columns(const ge_conv2d_params *p, int32_t left) {
    conv2d_s8_armv6m_inside in = {0, p->kernel_w};
    while (in.first < in.last && left + in.first * p->dilation_w < 0) {
        in.first++;
    }
    while (in.last > in.first && left + (in.last - 1) * p->dilation_w >= p->in_w) {
        in.last--;
    }
    return in;
}

/* One row of a window, `row` at column `left`. */
static void conv2d_s8_armv6m_run(const ge_conv2d_params *p, const int8_t *row, const conv2d_s8_armv6m_inside *in,
                                 int8_t *to) {
    const int32_t c = p->in_c;
    ge_threes_fill(to, p->in_zero_point, in->first * c);
    if (p->dilation_w == 1) {
        ge_threes_take(to + in->first * c, row + in->first * c, (in->last - in->first) * c);
    } else {
        for (int32_t kx = in->first; kx < in->last; kx++) {
            ge_threes_take(to + kx * c, row + kx * p->dilation_w * c, c);
        }
    }
    ge_threes_fill(to + in->last * c, p->in_zero_point, (p->kernel_w - in->last) * c);
}

/* The window at (y, ox), in one piece. */
static void conv2d_s8_armv6m_window(const ge_conv2d_params *p, const ge_rows *x, int32_t y, int32_t ox, int8_t *to) {
    const int32_t left = ox * p->stride_w - p->pad_left;
    const int32_t run = p->kernel_w * p->in_c;
    const conv2d_s8_armv6m_inside in = conv2d_s8_armv6m_columns(p, left);
    int32_t iy = y * p->stride_h - p->pad_top;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        if (iy >= 0 && iy < p->in_h) {
            conv2d_s8_armv6m_run(p, (const int8_t *)ge_row(x, iy) + left * p->in_c, &in, to);
        } else {
            ge_threes_fill(to, p->in_zero_point, run);
        }
        to += run;
        iy += p->dilation_h;
    }
}

static void ge_conv2d_s8_armv6m(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *words, const int32_t *law,
                                const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const ge_threes_range range = ge_threes_range_of(p->out_zero_point, p->lo, p->hi);
    const int32_t in_place = GE_THREES_IN_PLACE && p->kernel_h * p->kernel_w == 1 && p->in_c % 8 == 0 &&
                             p->pad_top == 0 && p->pad_left == 0 && (p->out_w - 1) * p->stride_w < p->in_w &&
                             (p->out_h - 1) * p->stride_h < p->in_h;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int8_t *window = (const int8_t *)scratch;
            if (in_place) {
                window = (const int8_t *)ge_row(x, y * p->stride_h) + ox * p->stride_w * p->in_c;
            } else {
                conv2d_s8_armv6m_window(p, x, y, ox, (int8_t *)scratch);
            }
            ge_threes_run(words, law, &range, window, p->out_c, o);
            o += p->out_c;
        }
    }
}
