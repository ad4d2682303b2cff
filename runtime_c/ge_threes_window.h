/* Convolution by ge_threes.h: the window of a pixel is copied into one piece, then multiplied by all channels. Included after
 * ge_isa_<isa>.h. No division and no test of borders in the inner loops. */
#ifndef GE_THREES_WINDOW_H
#define GE_THREES_WINDOW_H

#include "ge.h"
#include "ge_params.h"
#include "ge_threes.h"

/* Taps of a window that lie in the input: columns of the kernel from `first` to before `last`. */
typedef struct {
    int32_t first;
    int32_t last;
} ge_threes_inside;

static inline ge_threes_inside ge_threes_columns(const ge_conv2d_params *p, int32_t left) {
    ge_threes_inside in = {0, p->kernel_w};
    while (in.first < in.last && left + in.first * p->dilation_w < 0) {
        in.first++;
    }
    while (in.last > in.first && left + (in.last - 1) * p->dilation_w >= p->in_w) {
        in.last--;
    }
    return in;
}

/* One row of a window, `row` at column `left`. */
static inline void ge_threes_copy(const ge_conv2d_params *p, const int8_t *row, const ge_threes_inside *in,
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
static inline void ge_threes_window(const ge_conv2d_params *p, const ge_rows *x, int32_t y, int32_t ox, int8_t *to) {
    const int32_t left = ox * p->stride_w - p->pad_left;
    const int32_t run = p->kernel_w * p->in_c;
    const ge_threes_inside in = ge_threes_columns(p, left);
    int32_t iy = y * p->stride_h - p->pad_top;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        if (iy >= 0 && iy < p->in_h) {
            ge_threes_copy(p, (const int8_t *)ge_row(x, iy) + left * p->in_c, &in, to);
        } else {
            ge_threes_fill(to, p->in_zero_point, run);
        }
        to += run;
        iy += p->dilation_h;
    }
}

/* Rows of a convolution in one group. */
static inline void ge_threes_conv2d(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *words,
                                    const int32_t *law, const ge_rows *out, int32_t first_row, int32_t last_row,
                                    void *scratch) {
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
                ge_threes_window(p, x, y, ox, (int8_t *)scratch);
            }
            ge_threes_run(words, law, &range, window, p->out_c, o);
            o += p->out_c;
        }
    }
}

#endif
