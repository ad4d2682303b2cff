/* Products of AVX2: VPMADDWD of int16 pairs, exact on all data (VPMADDUBSW would saturate). Inputs are kept as int16; weights
 * are widened on the way, once for all pixels of a tile: a byte shuffle puts them into the high halves of words, and an
 * arithmetic shift brings them down. */
#ifndef GE_X86_AVX2_H
#define GE_X86_AVX2_H

#include "ge_x86_ymm.h"

typedef int16_t ge_x86_element;

typedef struct {
    __m256i pair[2];
} ge_x86_input;

/* pair[h][i]: inputs 2i and 2i + 1 of eight outputs */
typedef struct {
    __m256i pair[2][2];
} ge_x86_weights;

#define GE_X86_TILES(T) T(4, 1) T(3, 1) T(1, 1)

static inline GE_X86_INLINE ge_x86_weights ge_x86_weights_at(const int8_t *w) {
    const __m256i front = _mm256_set1_epi64x(0x0504040401000000);
    const __m256i back = _mm256_set1_epi64x(0x0706060603020202);
    const __m256i there = _mm256_setr_epi64x(0, 0x0808080808080808, 0, 0x0808080808080808);
    ge_x86_weights weights;
    for (int32_t h = 0; h < 2; h++) {
        const __m256i bytes = ge_x86_at(w + 32 * h);
        weights.pair[h][0] = _mm256_srai_epi16(_mm256_shuffle_epi8(bytes, _mm256_add_epi8(front, there)), 8);
        weights.pair[h][1] = _mm256_srai_epi16(_mm256_shuffle_epi8(bytes, _mm256_add_epi8(back, there)), 8);
    }
    return weights;
}

static inline GE_X86_INLINE ge_x86_input ge_x86_input_at(const ge_x86_element *x) {
    int32_t two[2];
    memcpy(two, x, sizeof two);
    const ge_x86_input input = {{_mm256_set1_epi32(two[0]), _mm256_set1_epi32(two[1])}};
    return input;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_dot(ge_x86_sums sums, ge_x86_weights w, ge_x86_input x) {
    for (int32_t h = 0; h < 2; h++) {
        sums.half[h] = _mm256_add_epi32(sums.half[h], _mm256_madd_epi16(w.pair[h][0], x.pair[0]));
        sums.half[h] = _mm256_add_epi32(sums.half[h], _mm256_madd_epi16(w.pair[h][1], x.pair[1]));
    }
    return sums;
}

static inline GE_X86_INLINE void ge_x86_expand(ge_x86_element *to, const int8_t *from, int32_t count) {
    const __m256i up = _mm256_set1_epi16(128);
    for (; count >= 16; count -= 16, to += 16, from += 16) {
        const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
        _mm256_storeu_si256((__m256i *)(void *)to, _mm256_add_epi16(wide, up));
    }
    for (int32_t i = 0; i < count; i++) {
        to[i] = (int16_t)(from[i] + 128);
    }
}

#endif
