/* Code that the int16 pools of Cortex-M4, M7 and M33 share: the taps of a window that lie in the image. */
#ifndef GE_DSP_WIDE_POOL_H
#define GE_DSP_WIDE_POOL_H

#include "ge.h"

/* Taps first..last-1 of one axis, of which tap k lies at start + k * dilation. */
typedef struct {
    int32_t first, last;
} ge_dsp_wide_span;

static inline ge_dsp_wide_span ge_dsp_wide_span_of(int32_t start, int32_t taps, int32_t dilation, int32_t count) {
    ge_dsp_wide_span s = {0, taps};
    while (s.first < taps && start + s.first * dilation < 0) {
        s.first++;
    }
    while (s.last > s.first && start + (s.last - 1) * dilation >= count) {
        s.last--;
    }
    return s;
}

#endif
