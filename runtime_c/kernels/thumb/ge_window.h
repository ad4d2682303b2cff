/* Finds the inputs that the taps of a window read, for the cores without DSP instructions. */
#ifndef GE_WINDOW_H
#define GE_WINDOW_H

#include "ge.h"
#include "ge_params.h"

/* Returns row iy of the input, or NULL in the padding. */
static inline const int8_t *ge_window_row(const ge_conv2d_params *p, const ge_rows *x, int32_t iy) {
    return iy >= 0 && iy < p->in_h ? (const int8_t *)ge_row(x, iy) : NULL;
}

/* Returns column ix of a row, or `padding` where there is none. */
static inline const int8_t *ge_window_tap(const ge_conv2d_params *p, const int8_t *row, int32_t ix,
                                          const int8_t *padding) {
    return row != NULL && ix >= 0 && ix < p->in_w ? row + ix * p->in_c : padding;
}

#endif
