/* The sum of products of int8 with int8 weights. */
#ifndef GE_DOT_S8_H
#define GE_DOT_S8_H

#include <stdint.h>

static inline int32_t ge_dot_s8(const int8_t *x, const int8_t *w, int32_t count, int32_t weight_zero) {
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += x[i] * (w[i] - weight_zero);
    }
    return sum;
}

#endif
