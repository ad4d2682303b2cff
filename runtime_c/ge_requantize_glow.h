/* Requantization as Glow's bundles do it: a shift, a multiplication by 8 bits, another shift.
 *
 * It gives the same bits as the law "glow" in glowembed/law/fixedpoint.py. Where Glow overflows int32, the result is
 * the true one, clamped.
 */
#ifndef GE_REQUANTIZE_GLOW_H
#define GE_REQUANTIZE_GLOW_H

#include <stdint.h>

/* ((x >> pre) * multiplier + 2^(post-1)) >> post for the words multiplier, pre (0..31) and post (0..62). */
static inline int64_t ge_scale_glow(int32_t x, const int32_t *w) {
    const int64_t half = ((int64_t)1 << w[2]) >> 1;
    return ((int64_t)(x >> w[1]) * w[0] + half) >> w[2];
}

/* words: three for each channel. */
static inline int8_t ge_requantize_glow(int32_t acc, const int32_t *words, int32_t channel, int32_t shift,
                                        int32_t zero_point, int32_t lo, int32_t hi) {
    const int64_t y = ge_scale_glow(acc, words + 3 * channel) + zero_point;
    (void)shift;
    return (int8_t)(y < lo ? lo : (y > hi ? hi : y));
}

/* The sum of a and b, int8 numbers less their zero points, each rescaled to steps of the output. w: three words for a,
 * three for b, the sign of b. */
static inline int8_t ge_requantize_each_glow(int32_t a, int32_t b, const int32_t *w, int32_t zero_point, int32_t lo,
                                             int32_t hi) {
    const int64_t y = ge_scale_glow(a, w) + ge_scale_glow(b, w + 3) * w[6] + zero_point;
    return (int8_t)(y < lo ? lo : (y > hi ? hi : y));
}

#endif
