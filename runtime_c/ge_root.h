/* The reciprocal square root of the normalizations. */
#ifndef GE_ROOT_H
#define GE_ROOT_H

#include "ge.h"

/* Returns the reciprocal square root of w > 0: 2^30 / sqrt(w) for w normalized to 2^-2..1 by a power of 4, from a table
 * and two Newton steps, then shifted by `exponent` and that power. */
static inline uint64_t ge_root(uint64_t w, const uint16_t *roots, int32_t exponent) {
    int32_t s = 0;
    while (w >= ((uint64_t)1 << 32)) {
        w >>= 2;
        s -= 2;
    }
    while (w < (1u << 30)) {
        w <<= 2;
        s += 2;
    }
    uint64_t root = (uint64_t)roots[(w >> 24) - 64u] << 15;
    for (int32_t i = 0; i < 2; i++) {
        root = (root * (((uint64_t)3 << 30) - ((w * ((root * root) >> 30)) >> 32))) >> 31;
    }
    const int32_t left = exponent + s / 2;
    return left >= 0 ? root << left : (root + ((uint64_t)1 << (-left - 1))) >> -left;
}

#endif
