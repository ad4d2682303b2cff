/* Code that the int16 and float32 pools of Cortex-M share: the taps of a window that lie in the image. */
#ifndef GE_THUMB_POOL_H
#define GE_THUMB_POOL_H

#include "ge.h"

/* Taps first..last-1 of one axis. */
typedef struct {
    int32_t first, last;
} ge_thumb_span;

/* Those of `taps` of which tap k lies at start + k * dilation, and in low..high-1. */
static inline ge_thumb_span ge_thumb_span_of(int32_t start, int32_t taps, int32_t dilation, int32_t low, int32_t high) {
    ge_thumb_span s = {0, taps};
    while (s.first < taps && start + s.first * dilation < low) {
        s.first++;
    }
    while (s.last > s.first && start + (s.last - 1) * dilation >= high) {
        s.last--;
    }
    return s;
}

/* Parameters that turn a sum into an int16 mean. */
typedef struct {
    int32_t zero, multiplier;
} ge_thumb_mean;

/* The first tap inside of row `row` of a window, in the channels from c on. */
#define GE_THUMB_TAP(type, p, x, left, columns, row, c)                                                                \
    ((const type *)ge_row(x, row) + ((left) + (columns)->first * (p)->dilation_w) * (p)->channels + (c))

#endif
