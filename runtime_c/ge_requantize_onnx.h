/* Requantization as ONNX QuantizeLinear defines it: 31-bit multipliers and one rounding, halves to even.
 *
 * It gives the same bits as the law "onnx" in glowembed/law/fixedpoint.py. A number that the multiplier is too short to
 * tell from a half counts as a half.
 */
#ifndef GE_REQUANTIZE_ONNX_H
#define GE_REQUANTIZE_ONNX_H

#include <stdint.h>

/* x / 2^shift, halves to even, where the error of x is at most `doubt`; shift 1..62. */
static inline int64_t ge_rounded_to_even(int64_t x, int32_t doubt, int32_t shift) {
    const int64_t raised = x + ((int64_t)1 << (shift - 1)) + doubt;
    const int64_t y = raised >> shift;
    const int64_t rest = raised & (((int64_t)1 << shift) - 1);
    return rest <= 2 * (int64_t)doubt ? y & ~(int64_t)1 : y;
}

/* |x| / 2, rounded down. */
static inline int32_t ge_half_of(int32_t x) {
    return (int32_t)((x < 0 ? -(int64_t)x : x) >> 1);
}

/* words: multiplier and shift for each channel. */
static inline int8_t ge_requantize_onnx(int32_t acc, const int32_t *words, int32_t channel, int32_t shift,
                                        int32_t zero_point, int32_t lo, int32_t hi) {
    const int32_t *w = words + 2 * channel;
    const int64_t y = ge_rounded_to_even((int64_t)acc * w[0], ge_half_of(acc), w[1]) + zero_point;
    (void)shift;
    return (int8_t)(y < lo ? lo : (y > hi ? hi : y));
}

/* The sum of a and b, int8 numbers less their zero points, rounded once. w: the multipliers of a and b, their shift,
 * and at w[6] the sign of b. */
static inline int8_t ge_requantize_each_onnx(int32_t a, int32_t b, const int32_t *w, int32_t zero_point, int32_t lo,
                                             int32_t hi) {
    const int64_t sum = (int64_t)a * w[0] + (int64_t)b * w[1] * w[6];
    const int32_t doubt = ((a < 0 ? -a : a) + (b < 0 ? -b : b)) >> 1;
    const int64_t y = ge_rounded_to_even(sum, doubt, w[2]) + zero_point;
    return (int8_t)(y < lo ? lo : (y > hi ? hi : y));
}

#endif
