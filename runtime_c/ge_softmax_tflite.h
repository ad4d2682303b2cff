/* The reciprocal in the softmax of TensorFlow Lite Micro, bit for bit. */
#ifndef GE_SOFTMAX_TFLITE_H
#define GE_SOFTMAX_TFLITE_H

#include "ge_requantize_tflite.h"

/* The number of leading zeros of a sum > 0. */
static inline int32_t ge_softmax_zeros(int32_t sum) {
    int32_t zeros = 0;
    while (((uint32_t)sum << zeros) < 0x80000000u) {
        zeros++;
    }
    return zeros;
}

/* x * factor, saturated to int32. */
static inline int32_t ge_softmax_times(int32_t x, int32_t factor) {
    const int64_t y = (int64_t)x * factor;
    return (int32_t)(y > INT32_MAX ? INT32_MAX : (y < INT32_MIN ? INT32_MIN : y));
}

/* 1 / (sum << zeros), where sum << zeros lies in [2^31, 2^32), by three Newton steps that start from 48/17 - 32/17
 * d. */
static inline int32_t ge_softmax_reciprocal(uint32_t sum, int32_t zeros) {
    const int64_t fraction = (int64_t)(sum << zeros) - INT32_MAX - 1;
    const int32_t half = (int32_t)((fraction + INT32_MAX + 1) / 2);
    int32_t x = 1515870810 + ge_doubling_high_mul(half, -1010580540);
    for (int32_t i = 0; i < 3; i++) {
        const int32_t error = (1 << 29) - ge_doubling_high_mul(half, x);
        x += ge_softmax_times(ge_doubling_high_mul(x, error), 4);
    }
    return ge_softmax_times(x, 2);
}

#endif
