/* Code that the Softmax kernels of Cortex-M4, M7 and M33 share: the largest input, and exponentials from the table. */
#ifndef GE_DSP_EXP_H
#define GE_DSP_EXP_H

#include "ge_dsp_pool.h"

/* Returns the largest of n > 0 numbers; compares four at a time. */
static inline int32_t ge_dsp_max(const int8_t *x, int32_t n) {
    int32_t max = x[0];
    uint32_t largest = 0x01010101u * (uint8_t)x[0];
    for (; n >= 4; n -= 4) {
        uint32_t word;
        memcpy(&word, x, 4);
        largest = ge_dsp_larger(largest, word);
        x += 4;
    }
    for (int32_t i = 0; i < 4; i++) {
        const int32_t one = (int8_t)(largest >> (8 * i));
        max = one > max ? one : max;
    }
    for (int32_t i = 0; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

/* Loads the exponentials of four inputs into e, with loads grouped by kind. */
#define GE_DSP_EXP_FOUR(e, x, max, table)                                                                              \
    do {                                                                                                               \
        const int32_t d0_ = (max) - (x)[0], d1_ = (max) - (x)[1], d2_ = (max) - (x)[2], d3_ = (max) - (x)[3];          \
        (e)[0] = (table)[d0_];                                                                                         \
        (e)[1] = (table)[d1_];                                                                                         \
        (e)[2] = (table)[d2_];                                                                                         \
        (e)[3] = (table)[d3_];                                                                                         \
    } while (0)

#endif
