/* The normalization of a vector of at most 256 int8 elements in 32 bits, for Cortex-M4 and Helium. */
#ifndef GE_DSP_ROOT_H
#define GE_DSP_ROOT_H

#include "ge.h"
#include "ge_params.h"

static inline uint32_t ge_dsp_root_high(uint32_t a, uint32_t b) {
    return (uint32_t)((uint64_t)a * b >> 32);
}

/* Returns the lower 32 bits of the reciprocal root of w, which is not 0, times 2^exponent. */
static inline uint32_t ge_dsp_root(uint64_t w, const uint16_t *roots, int32_t exponent) {
    const uint32_t high = (uint32_t)(w >> 32), low = (uint32_t)w;
    uint32_t m;
    if (high != 0u) {
        const int32_t right = (33 - __builtin_clz(high)) & ~1;
        m = (high << (32 - right)) | ((low >> 1) >> (right - 1));
        exponent -= right >> 1;
    } else {
        const int32_t left = __builtin_clz(low) & ~1;
        m = low << left;
        exponent += left >> 1;
    }
    uint32_t root = (uint32_t)roots[(m >> 24) - 64u] << 15;
    for (int32_t i = 0; i < 2; i++) {
        const uint32_t t = (uint32_t)((uint64_t)root * root >> 30);
        root = (uint32_t)((uint64_t)root * (0xC0000000u - ge_dsp_root_high(m, t)) >> 31);
    }
    if (exponent >= 0) {
        return exponent < 32 ? root << exponent : 0u;
    }
    return exponent > -32 ? (root + (1u << (-exponent - 1))) >> -exponent : 0u;
}

/* An element x becomes x * slope + start, before the scale of its channel. */
typedef struct {
    uint32_t slope, start;
} ge_dsp_root_line;

/* sum, squares: those of the elements with their zero point. */
static inline ge_dsp_root_line ge_dsp_root_of(const ge_normalize_params *p, int32_t sum, uint32_t squares,
                                              int32_t variance_bits, const uint16_t *roots) {
    const uint32_t n = (uint32_t)p->channels, zero = (uint32_t)p->zero_point;
    const uint32_t mean = p->centred != 0 ? (uint32_t)sum : zero * n;
    squares += zero * (zero * n - 2u * (uint32_t)sum);
    const uint32_t variance = n * squares - (p->centred != 0 ? mean * mean : 0u);
    const uint64_t epsilon = ((uint64_t)p->epsilon_high << 31) + (uint32_t)p->epsilon_low;
    const uint64_t w = ((uint64_t)variance << variance_bits) + epsilon;
    const uint32_t factor = ge_dsp_root(w != 0u ? w : 1u, roots, p->root_shift);
    const ge_dsp_root_line line = {n * factor, 0u - mean * factor};
    return line;
}

#endif
