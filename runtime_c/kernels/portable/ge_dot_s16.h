/* The sum of products of int16 with int8 or int16 weights; `chunk` of them fit int32, which the weights were checked for. */
#ifndef GE_DOT_S16_H
#define GE_DOT_S16_H

#include <stdint.h>

static inline int64_t ge_dot_s16(const int16_t *x, const int8_t *w, int32_t count, int32_t chunk) {
    int64_t total = 0;
    for (int32_t first = 0; first < count; first += chunk) {
        const int32_t last = count - first < chunk ? count : first + chunk;
        int32_t sum = 0;
        for (int32_t i = first; i < last; i++) {
            sum += x[i] * w[i];
        }
        total += sum;
    }
    return total;
}

static inline int64_t ge_dot_s16_w16(const int16_t *x, const int16_t *w, int32_t count, int32_t chunk) {
    int64_t total = 0;
    for (int32_t first = 0; first < count; first += chunk) {
        const int32_t last = count - first < chunk ? count : first + chunk;
        int32_t sum = 0;
        for (int32_t i = first; i < last; i++) {
            sum += x[i] * w[i];
        }
        total += sum;
    }
    return total;
}

#endif
