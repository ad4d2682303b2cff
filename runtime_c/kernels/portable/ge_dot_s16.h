/* The sum of products of int16 with int8 or int16 weights. `chunk` products fit in int32; the compiler of the bundle
 * has checked this for the weights. */
#ifndef GE_DOT_S16_H
#define GE_DOT_S16_H

#include <stdint.h>

/* Defines the loop for one type of weights. */
#define GE_DOT_S16_OF(name, weight)                                                                                    \
    static inline int64_t name(const int16_t *x, const weight *w, int32_t count, int32_t chunk) {                      \
        int64_t total = 0;                                                                                             \
        for (int32_t first = 0; first < count; first += chunk) {                                                       \
            const int32_t last = count - first < chunk ? count : first + chunk;                                        \
            int32_t sum = 0;                                                                                           \
            for (int32_t i = first; i < last; i++) {                                                                   \
                sum += x[i] * w[i];                                                                                    \
            }                                                                                                          \
            total += sum;                                                                                              \
        }                                                                                                              \
        return total;                                                                                                  \
    }

GE_DOT_S16_OF(ge_dot_s16, int8_t)
GE_DOT_S16_OF(ge_dot_s16_w16, int16_t)

#endif
