/* How the levels with registers of 128 and 256 bits store the outputs of conv2d_sixteen_s8_x86.c; ge_x86_portable.h explains the
 * names. */
#ifndef GE_X86_TURNED_H
#define GE_X86_TURNED_H

static inline GE_X86_INLINE void ge_x86_store_turned1(int8_t *to, ge_x86_sums y, int32_t parts, const ge_x86_law *law) {
    const __m128i one = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i two = _mm_setr_epi8(0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15);
    const __m128i bytes = _mm_shuffle_epi8(ge_x86_narrowed(y, law), parts == 2 ? two : one);
    _mm_storeu_si128((__m128i *)(void *)to, bytes);
}

static inline GE_X86_INLINE void ge_x86_store_turned4(int8_t *const to[4], const ge_x86_sums y[4], int32_t parts,
                                                      const ge_x86_law *law) {
    GE_X86_UNROLL
    for (int32_t v = 0; v < 4; v++) {
        ge_x86_store_turned1(to[v], y[v], parts, law);
    }
}

static inline GE_X86_INLINE void ge_x86_store_apart(int8_t *to, ge_x86_sums y, const ge_x86_law *law) {
    int8_t sixteen[16];
    ge_x86_store_turned1(sixteen, y, 1, law);
    GE_X86_UNROLL
    for (int32_t k = 0; k < 4; k++) {
        memcpy(to + 8 * k, sixteen + 4 * k, 4);
    }
}

#endif
