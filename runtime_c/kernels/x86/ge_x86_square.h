/* Transposes squares of 16 x 16 bytes, with the same code in 128-bit registers at every level that has them.
 *
 * Levels without GE_X86_SQUARES never call these functions.
 */
#ifndef GE_X86_SQUARE_H
#define GE_X86_SQUARE_H

#include "ge_x86_portable.h"

#if GE_X86_SQUARES

/* Loads up to 16 bytes, followed by zeros; nothing beyond them is read. */
static inline GE_X86_INLINE __m128i ge_x86_square_line(const int8_t *from, ptrdiff_t count) {
    int8_t all[16] = {0};
    if (count >= 16) {
        return _mm_loadu_si128((const __m128i *)(const void *)from);
    }
    memcpy(all, from, (size_t)count);
    return _mm_loadu_si128((const __m128i *)(const void *)all);
}

/* Transposes a square: four times, each line is interleaved with the one eight lines below. */
static inline GE_X86_INLINE void ge_x86_square(__m128i line[16]) {
    GE_X86_UNROLL
    for (int32_t round = 0; round < 4; round++) {
        __m128i next[16];
        GE_X86_UNROLL
        for (int32_t i = 0; i < 8; i++) {
            next[2 * i] = _mm_unpacklo_epi8(line[i], line[i + 8]);
            next[2 * i + 1] = _mm_unpackhi_epi8(line[i], line[i + 8]);
        }
        GE_X86_UNROLL
        for (int32_t i = 0; i < 16; i++) {
            line[i] = next[i];
        }
    }
}

/* Stores the first `count` bytes, at least 4, in two pieces that overlap. */
static inline GE_X86_INLINE void ge_x86_square_store(int8_t *to, __m128i line, int32_t count) {
    int8_t all[16];
    _mm_storeu_si128((__m128i *)(void *)all, line);
    if (count >= 8) {
        memcpy(to, all, 8);
        memcpy(to + count - 8, all + count - 8, 8);
    } else {
        memcpy(to, all, 4);
        memcpy(to + count - 4, all + count - 4, 4);
    }
}

/* Interleaves a run of pixels of up to 4 planes; the elements of a plane are contiguous, and so are the pixels. */
static inline GE_X86_INLINE void ge_x86_square_few(const int8_t *from, ptrdiff_t plane, int32_t planes, int8_t *to,
                                                   int32_t count) {
    const __m128i zero = _mm_setzero_si128();
    int8_t order[16];
    for (int32_t i = 0; i < 16; i++) {
        order[i] = (int8_t)(i < 4 * planes ? i / planes * 4 + i % planes : -1);
    }
    const __m128i pixels = _mm_loadu_si128((const __m128i *)(const void *)order);
    for (; count > 0; count -= 16) {
        __m128i line[4], four[4];
        GE_X86_UNROLL
        for (int32_t c = 0; c < 4; c++) {
            line[c] = c < planes ? ge_x86_square_line(from + c * plane, count) : zero;
        }
        const __m128i ab0 = _mm_unpacklo_epi8(line[0], line[1]), ab1 = _mm_unpackhi_epi8(line[0], line[1]);
        const __m128i cd0 = _mm_unpacklo_epi8(line[2], line[3]), cd1 = _mm_unpackhi_epi8(line[2], line[3]);
        four[0] = _mm_shuffle_epi8(_mm_unpacklo_epi16(ab0, cd0), pixels);
        four[1] = _mm_shuffle_epi8(_mm_unpackhi_epi16(ab0, cd0), pixels);
        four[2] = _mm_shuffle_epi8(_mm_unpacklo_epi16(ab1, cd1), pixels);
        four[3] = _mm_shuffle_epi8(_mm_unpackhi_epi16(ab1, cd1), pixels);
        int8_t all[64];
        int8_t *const at =
            count > 16 + 16 / planes ? to : all; /* bytes after the last pixel do not belong to the output */
        GE_X86_UNROLL
        for (int32_t i = 0; i < 4; i++) {
            _mm_storeu_si128((__m128i *)(void *)(at + 4 * i * planes), four[i]);
        }
        if (at != to) {
            memcpy(to, all, (size_t)(planes * (count < 16 ? count : 16)));
        }
        from += 16;
        to += 16 * planes;
    }
}

/* Writes `count` pixels, up to 16, to to[i], from the planes that begin at `from`; nothing from `end` on is read. */
static inline GE_X86_INLINE void ge_x86_square_pixels(const int8_t *from, const int8_t *end, ptrdiff_t plane,
                                                      int32_t planes, int8_t *const *to, int32_t count, int32_t c) {
    __m128i line[16];
    if (planes == 16 && end - from >= 15 * plane + 16) {
        GE_X86_UNROLL
        for (int32_t i = 0; i < 16; i++) {
            line[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + i * plane));
        }
    } else {
        GE_X86_UNROLL
        for (int32_t i = 0; i < 16; i++) {
            line[i] = i < planes ? ge_x86_square_line(from + i * plane, end - from - i * plane) : _mm_setzero_si128();
        }
    }
    ge_x86_square(line);
    GE_X86_UNROLL
    for (int32_t i = 0; i < 16; i++) {
        if (i < count && planes == 16) {
            _mm_storeu_si128((__m128i *)(void *)(to[i] + c), line[i]);
        } else if (i < count) {
            ge_x86_square_store(to[i], line[i], planes);
        }
    }
}

#else

static inline GE_X86_INLINE void ge_x86_square_pixels(const int8_t *from, const int8_t *end, ptrdiff_t plane,
                                                      int32_t planes, int8_t *const *to, int32_t count, int32_t c) {
    (void)from;
    (void)end;
    (void)plane;
    (void)planes;
    (void)to;
    (void)count;
    (void)c;
}

static inline GE_X86_INLINE void ge_x86_square_few(const int8_t *from, ptrdiff_t plane, int32_t planes, int8_t *to,
                                                   int32_t count) {
    (void)from;
    (void)plane;
    (void)planes;
    (void)to;
    (void)count;
}

#endif

#endif
