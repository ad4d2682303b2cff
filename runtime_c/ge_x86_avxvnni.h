/* Products of AVX-VNNI: four bytes of each of eight outputs in one instruction. */
#ifndef GE_X86_AVXVNNI_H
#define GE_X86_AVXVNNI_H

#include "ge_x86_ymm.h"

typedef uint8_t ge_x86_element;
typedef __m256i ge_x86_input;

typedef struct {
    __m256i half[2];
} ge_x86_weights;

#define GE_X86_TILES(T) T(6, 1) T(5, 1) T(4, 1) T(3, 1) T(1, 1)

static inline GE_X86_INLINE ge_x86_weights ge_x86_weights_at(const int8_t *w) {
    const ge_x86_weights weights = {{ge_x86_at(w), ge_x86_at(w + 32)}};
    return weights;
}

static inline GE_X86_INLINE ge_x86_input ge_x86_input_at(const ge_x86_element *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm256_set1_epi32(four);
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_dot(ge_x86_sums sums, ge_x86_weights w, ge_x86_input x) {
    sums.half[0] = _mm256_dpbusd_avx_epi32(sums.half[0], x, w.half[0]);
    sums.half[1] = _mm256_dpbusd_avx_epi32(sums.half[1], x, w.half[1]);
    return sums;
}

static inline GE_X86_INLINE void ge_x86_expand(ge_x86_element *to, const int8_t *from, int32_t count) {
    const __m256i flip = _mm256_set1_epi8(-128);
    for (; count >= 32; count -= 32, to += 32, from += 32) {
        _mm256_storeu_si256((__m256i *)(void *)to, _mm256_xor_si256(ge_x86_at(from), flip));
    }
    for (int32_t i = 0; i < count; i++) {
        to[i] = (uint8_t)(from[i] + 128);
    }
}

#endif
