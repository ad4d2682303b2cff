/* Adds products of float32 inputs and weights to `sum`, one after the other. */
#ifndef GE_DOT_F32_H
#define GE_DOT_F32_H

#include <stdint.h>

static inline float ge_dot_f32(float sum, const float *x, const float *w, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        sum += x[i] * w[i];
    }
    return sum;
}

#endif
