/* Functions and states of recurrent layers, sixteen units at a time, with AVX-512: those of ge_x86_gates.h in vectors.
 * VPMADDWD multiplies single int16 numbers where the upper half of one factor's lane is 0. */
#ifndef GE_X86_GATES_ZMM_H
#define GE_X86_GATES_ZMM_H

#include "ge.h"
#include "ge_x86_portable.h"

static inline GE_X86_INLINE __m512i ge_x86_gates_short(__m512i x) {
    return _mm512_max_epi32(_mm512_min_epi32(x, _mm512_set1_epi32(INT16_MAX)), _mm512_set1_epi32(INT16_MIN));
}

/* Without optimization, gcc's gather is a macro that converts its mask of all lanes. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

static inline GE_X86_INLINE __m512i ge_x86_gates_line(__m512i p, const int32_t *table) {
    const __m512i index = _mm512_add_epi32(_mm512_srai_epi32(p, 6), _mm512_set1_epi32(512));
    const __m512i word = _mm512_i32gather_epi32(index, table, 4);
    const __m512i place = _mm512_slli_epi32(_mm512_and_si512(p, _mm512_set1_epi32(63)), 5);
    return _mm512_srai_epi32(_mm512_add_epi32(word, _mm512_madd_epi16(word, place)), 16);
}

#pragma GCC diagnostic pop

/* tanh of px plus `more`, in steps of 2^exponent. */
static inline GE_X86_INLINE __m512i ge_x86_gates_tanh(__m512i px, __m512i more, __m128i exponent,
                                                      const int32_t *table) {
    const __m512i sum = ge_x86_gates_short(_mm512_add_epi32(ge_x86_gates_short(px), more));
    return ge_x86_gates_line(ge_x86_gates_short(_mm512_sll_epi32(sum, exponent)), table);
}

static inline GE_X86_INLINE void ge_x86_gates_functions(const int32_t *px, const int32_t *ph, const int32_t *table,
                                                        int32_t exponent, int32_t count, int32_t sigmoids,
                                                        int32_t *to) {
    const __m128i left = _mm_cvtsi32_si128(exponent);
    const __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int32_t i = 0; i < count; i += 16) {
        const __m512i t = ge_x86_gates_tanh(_mm512_loadu_si512(px + i), _mm512_loadu_si512(ph + i), left, table);
        const __mmask16 some = _mm512_cmplt_epi32_mask(places, _mm512_set1_epi32(sigmoids - i));
        const __m512i raised = _mm512_mask_add_epi32(t, some, t, _mm512_set1_epi32(32768));
        _mm512_storeu_si512(to + i, _mm512_mask_srai_epi32(raised, some, raised, 1));
    }
}

/* a + b, saturated. */
static inline GE_X86_INLINE __m512i ge_x86_gates_sum(__m512i a, __m512i b) {
    const __m512i sum = _mm512_add_epi32(a, b);
    const __m512i over = _mm512_and_si512(_mm512_xor_si512(a, sum), _mm512_xor_si512(b, sum));
    const __m512i most = _mm512_xor_si512(_mm512_srai_epi32(a, 31), _mm512_set1_epi32(INT32_MAX));
    return _mm512_mask_mov_epi32(sum, _mm512_cmplt_epi32_mask(over, _mm512_setzero_si512()), most);
}

/* Computes sixteen units whatever `count` is. */
static inline GE_X86_INLINE void ge_x86_gates_lstm(const int32_t *gates, const int32_t *table, int32_t units,
                                                   int32_t count, int32_t *cells, int8_t *hidden) {
    const __m512i i = _mm512_loadu_si512(gates), o = _mm512_loadu_si512(gates + units);
    const __m512i f = _mm512_loadu_si512(gates + 2 * units), g = _mm512_loadu_si512(gates + 3 * units);
    const __m512i old = _mm512_loadu_si512(cells);
    const __m512i low = _mm512_mullo_epi32(_mm512_and_si512(old, _mm512_set1_epi32(0xFFFF)), f);
    const __m512i kept = _mm512_add_epi32(_mm512_madd_epi16(_mm512_srli_epi32(old, 16), f), _mm512_srai_epi32(low, 16));
    const __m512i entered = _mm512_srai_epi32(_mm512_madd_epi16(i, g), 6);
    const __m512i cell = ge_x86_gates_sum(_mm512_add_epi32(kept, kept), entered);
    const __m512i t = ge_x86_gates_line(ge_x86_gates_short(_mm512_srai_epi32(cell, 12)), table);
    const __m512i h = _mm512_add_epi32(_mm512_madd_epi16(o, t), _mm512_set1_epi32(1 << 22));
    (void)count;
    _mm512_storeu_si512(cells, cell);
    _mm_storeu_si128((__m128i *)(void *)hidden, _mm512_cvtsepi32_epi8(_mm512_srai_epi32(h, 23)));
}

static inline GE_X86_INLINE void ge_x86_gates_gru(const int32_t *gates, const int32_t *px, const int32_t *ph,
                                                  const int32_t *table, int32_t e, int32_t units, int32_t count,
                                                  int32_t *states, int8_t *hidden) {
    const __m128i exponent = _mm_cvtsi32_si128(e);
    const __m512i half = _mm512_set1_epi32(1 << 14);
    const __m512i z = _mm512_loadu_si512(gates), r = _mm512_loadu_si512(gates + units);
    const __m512i given = ge_x86_gates_short(_mm512_loadu_si512(ph));
    const __m512i own = _mm512_srai_epi32(_mm512_add_epi32(_mm512_madd_epi16(r, given), half), 15);
    const __m512i n = ge_x86_gates_tanh(_mm512_loadu_si512(px), own, exponent, table);
    const __m512i moved = _mm512_mullo_epi32(z, _mm512_sub_epi32(_mm512_loadu_si512(states), n));
    const __m512i state = _mm512_add_epi32(n, _mm512_srai_epi32(_mm512_add_epi32(moved, half), 15));
    const __m512i h = _mm512_srai_epi32(_mm512_add_epi32(state, _mm512_set1_epi32(128)), 8);
    (void)count;
    _mm512_storeu_si512(states, state);
    _mm_storeu_si128((__m128i *)(void *)hidden, _mm512_cvtsepi32_epi8(h));
}

#endif
