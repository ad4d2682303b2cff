/* Requantization as TensorFlow Lite Micro's reference kernels do it: 31-bit multipliers, rounded twice.
 *
 * It gives the same bits as the law "tflite" in glowembed/law/fixedpoint.py. Where TensorFlow Lite Micro overflows, the
 * result saturates.
 */
#ifndef GE_REQUANTIZE_TFLITE_H
#define GE_REQUANTIZE_TFLITE_H

#include <stdint.h>

/* a * b / 2^31, halves up; a and b must not both be -2^31. */
static inline int32_t ge_doubling_high_mul(int32_t a, int32_t b) {
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

/* x / 2^exponent, halves away from zero; exponent 0..31. */
static inline int32_t ge_rounding_divide(int32_t x, int32_t exponent) {
    const int64_t half = ((int64_t)1 << exponent) >> 1;
    const int64_t nudge = exponent > 0 && x < 0 ? half - 1 : half;
    return (int32_t)((x + nudge) >> exponent);
}

/* x * multiplier * 2^(shift - 31), rounded twice; multiplier 0..2^31-1, shift -31..30 (positive: to the left). */
static inline int32_t ge_multiply_tflite(int32_t x, int32_t multiplier, int32_t shift) {
    const int64_t shifted = (int64_t)x * ((int64_t)1 << (shift > 0 ? shift : 0));
    const int64_t wide = shifted > INT32_MAX ? INT32_MAX : (shifted < INT32_MIN ? INT32_MIN : shifted);
    return ge_rounding_divide(ge_doubling_high_mul((int32_t)wide, multiplier), shift < 0 ? -shift : 0);
}

/* words: multiplier and shift for each channel. */
static inline int8_t ge_requantize_tflite(int32_t acc, const int32_t *words, int32_t channel, int32_t shift,
                                          int32_t zero_point, int32_t lo, int32_t hi) {
    const int32_t *w = words + 2 * channel;
    const int64_t y = (int64_t)ge_multiply_tflite(acc, w[0], w[1]) + zero_point;
    (void)shift;
    return (int8_t)(y < lo ? lo : (y > hi ? hi : y));
}

/* The sum of a and b, int8 numbers less their zero points. Each is rescaled with 20 bits of headroom and rounded, and
 * so is their sum. w: multiplier and shift of a, of b and of the sum, then the sign of b. */
static inline int8_t ge_requantize_each_tflite(int32_t a, int32_t b, const int32_t *w, int32_t zero_point, int32_t lo,
                                               int32_t hi) {
    const int32_t scaled_a = ge_multiply_tflite(a * (1 << 20), w[0], w[1]);
    const int32_t scaled_b = ge_multiply_tflite(b * (1 << 20), w[2], w[3]) * w[6];
    const int64_t y = (int64_t)ge_multiply_tflite(scaled_a + scaled_b, w[4], w[5]) + zero_point;
    return (int8_t)(y < lo ? lo : (y > hi ? hi : y));
}

#endif
