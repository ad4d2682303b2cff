/* Requantization as Glow's bundles do it: shift, multiply by 8 bits, shift.
 *
 * The twin of mode "glow" in glowembed/fixedpoint.py. Where Glow overflows int32, this gives the clamped true result.
 */
#ifndef GE_REQUANTIZE_GLOW_H
#define GE_REQUANTIZE_GLOW_H

#include <stdint.h>

/* Three words for a channel: multiplier, pre (0..31) and post (0..62). */
static inline int8_t ge_requantize_glow(int32_t acc, const int32_t *words, int32_t channel, int32_t shift,
                                        int32_t zero_point, int32_t lo, int32_t hi) {
    const int32_t *w = words + 3 * channel;
    const int64_t half = ((int64_t)1 << w[2]) >> 1;
    const int64_t y = (((int64_t)(acc >> w[1]) * w[0] + half) >> w[2]) + zero_point;
    (void)shift;
    return (int8_t)(y < lo ? lo : (y > hi ? hi : y));
}

#endif
