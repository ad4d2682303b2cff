/* The integer law of int16. It gives the same bits as glowembed/law/wide.py for the same numbers.
 *
 * Sums are int64. The compiler of the bundle has bounded every product, so nothing overflows.
 */
#ifndef GE_WIDE_H
#define GE_WIDE_H

#include <stdint.h>

/* clamp(((acc * multiplier + 2^(shift-1)) >> shift) + zero_point, lo, hi); |acc * multiplier| < 2^62, shift 1..62. */
static inline int32_t ge_requantize_wide(int64_t acc, int32_t multiplier, int32_t shift, int32_t zero_point, int32_t lo,
                                         int32_t hi) {
    const int64_t y = ((acc * multiplier + ((int64_t)1 << (shift - 1))) >> shift) + zero_point;
    return (int32_t)(y < lo ? lo : (y > hi ? hi : y));
}

/* clamp(((a * multiplier_a + b * multiplier_b + 2^(shift-1)) >> shift) + zero_point, lo, hi) for a and b of 17 bits. */
static inline int32_t ge_requantize_wide_pair(int32_t a, int32_t b, int32_t multiplier_a, int32_t multiplier_b,
                                              int32_t shift, int32_t zero_point, int32_t lo, int32_t hi) {
    const int64_t sum = (int64_t)a * multiplier_a + (int64_t)b * multiplier_b;
    const int64_t y = ((sum + ((int64_t)1 << (shift - 1))) >> shift) + zero_point;
    return (int32_t)(y < lo ? lo : (y > hi ? hi : y));
}

#endif
