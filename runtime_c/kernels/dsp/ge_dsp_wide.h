/* Code that the int16 kernels of Cortex-M4, M7 and M33 share: the bounds of an activation. */
#ifndef GE_DSP_WIDE_H
#define GE_DSP_WIDE_H

#include "ge.h"

/* Returns whether saturation to 0..32767 is the clamp of these params. */
static inline int32_t ge_dsp_wide_is_relu(int32_t lo, int32_t hi) {
    return lo == 0 && hi == INT16_MAX;
}

/* Clamps `count` outputs. */
__attribute__((unused, noinline)) static void ge_dsp_wide_clamp(int16_t *o, int32_t count, int32_t lo, int32_t hi) {
    const uint32_t low = ((uint32_t)lo & 0xFFFFu) | (uint32_t)lo << 16;
    const uint32_t high = ((uint32_t)hi & 0xFFFFu) | (uint32_t)hi << 16;
    uint32_t y, t;
    for (; count >= 2; count -= 2) {
        memcpy(&y, o, 4);
        __asm__ volatile("    ssub16 %[t], %[y], %[low]\n"
                         "    sel %[y], %[y], %[low]\n"
                         "    ssub16 %[t], %[high], %[y]\n"
                         "    sel %[y], %[y], %[high]\n"
                         : [y] "+&r"(y), [t] "=&r"(t)
                         : [low] "r"(low), [high] "r"(high));
        memcpy(o, &y, 4);
        o += 2;
    }
    if (count > 0) {
        *o = (int16_t)(*o < lo ? lo : (*o > hi ? hi : *o));
    }
}

#endif
