/* The integer law of int8. It gives the same bits as glowembed/law/fixedpoint.py for the same numbers.
 *
 * Every rounding and saturation of int8 kernels is one of these functions. They rely on arithmetic right shifts of
 * negative numbers; C99 6.5.7 leaves this to the implementation, and every compiler for the supported targets does it.
 */
#ifndef GE_FIXEDPOINT_H
#define GE_FIXEDPOINT_H

#include <stdint.h>

static inline int32_t ge_clamp(int32_t x, int32_t lo, int32_t hi) {
    return x < lo ? lo : (x > hi ? hi : x);
}

/* (acc * multiplier + 2^31) >> 32, computed from 32-bit products for cores without longer ones; multiplier >= 0. */
static inline int32_t ge_scaled(int32_t acc, int32_t multiplier) {
    const int32_t high = acc >> 16;
    const uint32_t low = (uint32_t)acc & 0xFFFFu;
    const uint32_t up = (uint32_t)multiplier >> 16;
    const uint32_t down = (uint32_t)multiplier & 0xFFFFu;
    const int32_t middle = high * (int32_t)down + (int32_t)(low * down >> 16);
    const uint32_t rest = low * up + ((uint32_t)middle & 0xFFFFu) + 0x8000u;
    return high * (int32_t)up + (middle >> 16) + (int32_t)(rest >> 16);
}

/* 0 where the compiler would call a function for a 64-bit product. */
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define GE_LONG_PRODUCTS 0
#else
#define GE_LONG_PRODUCTS 1
#endif

/* clamp(((acc * multiplier[channel] + 2^(shift-1)) >> shift) + zero_point, lo, hi); multipliers >= 0, shift 1..32. The
 * product has 62 bits; the clamp happens before it is narrowed. For the other laws, ge_requantize_<law> takes the same
 * arguments; it may read several words for each channel, and ignores `shift`. */
static inline int8_t ge_requantize(int32_t acc, const int32_t *multiplier, int32_t channel, int32_t shift,
                                   int32_t zero_point, int32_t lo, int32_t hi) {
    if (!GE_LONG_PRODUCTS && shift == 32) {
        return (int8_t)ge_clamp(ge_scaled(acc, multiplier[channel]) + zero_point, lo, hi);
    }
    const int64_t product = (int64_t)acc * multiplier[channel] + ((int64_t)1 << (shift - 1));
    const int64_t y = (product >> shift) + zero_point;
    return (int8_t)(y < lo ? lo : (y > hi ? hi : y));
}

/* clamp((a * multiplier_a + b * multiplier_b + offset) >> shift, lo, hi); int16 multipliers, shift 1..22. The offset
 * contains the zero points and the rounding. For int8 inputs the sum fits in int32. */
static inline int8_t ge_requantize_pair(int32_t a, int32_t b, int32_t multiplier_a, int32_t multiplier_b,
                                        int32_t offset, int32_t shift, int32_t lo, int32_t hi) {
    const int32_t y = (a * multiplier_a + b * multiplier_b + offset) >> shift;
    return (int8_t)ge_clamp(y, lo, hi);
}

#endif
