/* What the pools of Cortex-M4, M7 and M33 share: the part of a window that lies in the image, and sixteen or four
 * channels of all its elements. Windows whose taps touch. */
#ifndef GE_DSP_POOL_H
#define GE_DSP_POOL_H

#include "ge.h"

/* Rows and columns first..last-1 of a window that exist. */
typedef struct {
    int32_t top, bottom, left, right;
} ge_dsp_window;

static inline ge_dsp_window ge_dsp_window_of(int32_t y, int32_t x, int32_t kernel_h, int32_t kernel_w, int32_t in_h,
                                             int32_t in_w) {
    ge_dsp_window w;
    w.top = y < 0 ? 0 : y;
    w.bottom = y + kernel_h < in_h ? y + kernel_h : in_h;
    w.left = x < 0 ? 0 : x;
    w.right = x + kernel_w < in_w ? x + kernel_w : in_w;
    return w;
}

#endif
