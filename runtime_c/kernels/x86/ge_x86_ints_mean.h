/* Sums over the windows of average pools of float32 and of int16, one vector of channels at a time, over all taps in
 * order. */
#ifndef GE_X86_INTS_MEAN_H
#define GE_X86_INTS_MEAN_H

#include "ge_x86_ints.h"

/* A window, whose first element is at row `top` and column `left` of the input. */
typedef struct {
    const ge_rows *x;
    int32_t kernel_h, kernel_w, dilation_h, dilation_w, in_h, in_w, channels, top, left;
    int32_t zero; /* is subtracted from each integer */
} ge_x86_mean_window;

/* Initializer from the params of a pool. */
#define GE_X86_MEAN_WINDOW(p, x, y, ox, zero)                                                                          \
    {x,                                                                                                                \
     (p)->kernel_h,                                                                                                    \
     (p)->kernel_w,                                                                                                    \
     (p)->dilation_h,                                                                                                  \
     (p)->dilation_w,                                                                                                  \
     (p)->in_h,                                                                                                        \
     (p)->in_w,                                                                                                        \
     (p)->channels,                                                                                                    \
     (y) * (p)->stride_h - (p)->pad_top,                                                                               \
     (ox) * (p)->stride_w - (p)->pad_left,                                                                             \
     zero}

/* Returns how many of `taps` positions, from `start` on in steps of `dilation`, lie in first..last-1. */
static inline GE_X86_INLINE int32_t ge_x86_mean_taps(int32_t start, int32_t taps, int32_t dilation, int32_t first,
                                                     int32_t last) {
    int32_t count = 0;
    for (int32_t k = 0; k < taps; k++) {
        const int32_t i = start + k * dilation;
        count += i >= first && i < last;
    }
    return count;
}

/* Sums `count` channels from c on; `count` is a constant where they fill a vector. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_mean_sums(const ge_x86_mean_window *w, int32_t c, int32_t count,
                                                         const int32_t bytes) {
    ge_x86_ints sums = ge_x86_ints_all(0);
    for (int32_t ky = 0; ky < w->kernel_h; ky++) {
        const int32_t iy = w->top + ky * w->dilation_h;
        if (iy < 0 || iy >= w->in_h) {
            continue;
        }
        const uint8_t *const row = (const uint8_t *)ge_row(w->x, iy) + c * bytes;
        for (int32_t kx = 0; kx < w->kernel_w; kx++) {
            const int32_t ix = w->left + kx * w->dilation_w;
            if (ix >= 0 && ix < w->in_w) {
                const ge_x86_ints tap =
                    ge_x86_some_elements_at(row + (ptrdiff_t)ix * w->channels * bytes, count, bytes);
                if (bytes == 4) {
                    sums = ge_x86_as_ints(ge_x86_as_floats(sums) + ge_x86_as_floats(tap));
                } else {
                    sums = sums + (tap - ge_x86_ints_all(w->zero));
                }
            }
        }
    }
    return sums;
}

/* Computes all channels of one pixel: sums of float32 are divided by the float whose bits are `divisor`, sums of
 * integers are scaled by a multiplier. */
static inline GE_X86_INLINE void ge_x86_mean(const ge_x86_mean_window *w, int32_t divisor, const ge_x86_wide_law *law,
                                             uint8_t *o, const int32_t bytes) {
    const ge_x86_ints all = ge_x86_ints_all(divisor);
    for (int32_t c = 0; c < w->channels; c += GE_X86_FLOATS) {
        const int32_t count = w->channels - c < GE_X86_FLOATS ? w->channels - c : GE_X86_FLOATS;
        ge_x86_ints sums = count == GE_X86_FLOATS ? ge_x86_mean_sums(w, c, GE_X86_FLOATS, bytes)
                                                  : ge_x86_mean_sums(w, c, count, bytes);
        if (bytes == 4) {
            sums = ge_x86_as_ints(ge_x86_as_floats(sums) / ge_x86_as_floats(all));
        }
        ge_x86_store_some_elements(o + c * bytes, ge_x86_outputs(sums, all, law, bytes), count, bytes);
    }
}

#endif
