/* Products with AVX-VNNI: one instruction multiplies four bytes of each of eight outputs. */
#ifndef GE_X86_AVXVNNI_H
#define GE_X86_AVXVNNI_H

#include "ge_x86_ymm.h"

typedef uint8_t ge_x86_element;
typedef int8_t ge_x86_tap;
typedef __m256i ge_x86_input;

typedef struct {
    __m256i half[2];
} ge_x86_weights;

#define GE_X86_TAPS_BYTES(count) ((count) * 0)
#define GE_X86_TOGETHER 4
#define GE_X86_WINOGRAD 0
#define GE_X86_ROW_PAIRS 0
#define GE_X86_BYTES 0
#define GE_X86_SWEEP 0
#define GE_X86_SQUARES 1
#define GE_X86_SHORTS 0
#define GE_X86_TILES(T) T(6, 1) T(5, 1) T(4, 1) T(3, 1) T(1, 1)
#define GE_X86_COLUMN_TILES(T)
#define GE_X86_RAW_TILES(T)

static inline GE_X86_INLINE const ge_x86_tap *ge_x86_blocks_of(ge_x86_tap *room, const int8_t *image, int32_t steps) {
    (void)room;
    (void)steps;
    return image;
}

static inline GE_X86_INLINE ge_x86_weights ge_x86_weights_at(const ge_x86_tap *w) {
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

static inline GE_X86_INLINE ge_x86_sums ge_x86_dot_four(ge_x86_sums sums, const int8_t *w, const ge_x86_element *x) {
    return ge_x86_dot(sums, ge_x86_weights_at(w), ge_x86_input_at(x));
}

static inline GE_X86_INLINE void ge_x86_fill(ge_x86_element *to, ge_x86_element x, int32_t count) {
    for (; count >= 32; count -= 32, to += 32) {
        _mm256_storeu_si256((__m256i *)(void *)to, _mm256_set1_epi8((char)x));
    }
    for (int32_t i = 0; i < count; i++) {
        to[i] = x;
    }
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

/* Sixteen channels */

#define GE_X86_SIXTEEN_TILES(T) T(4, 1) T(1, 1) T(2, 2) T(1, 2)

typedef __m256i ge_x86_sixteen; /* twice */

typedef ge_x86_sums ge_x86_fours;

static inline GE_X86_INLINE const ge_x86_tap *ge_x86_fours_taps(ge_x86_tap *room, const int8_t *image, int32_t count) {
    (void)room;
    (void)count;
    return image;
}

static inline GE_X86_INLINE ge_x86_sixteen ge_x86_sixteen_at(const ge_x86_element *x) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)x));
}

static inline GE_X86_INLINE ge_x86_fours ge_x86_fours_zero(void) {
    return ge_x86_zero();
}

static inline GE_X86_INLINE ge_x86_fours ge_x86_fours_dot(ge_x86_fours sums, const ge_x86_tap *w, ge_x86_sixteen x) {
    sums.half[0] = _mm256_dpbusd_avx_epi32(sums.half[0], x, ge_x86_at(w));
    sums.half[1] = _mm256_dpbusd_avx_epi32(sums.half[1], x, ge_x86_at(w + 32));
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_fours_sums(ge_x86_fours sums) {
    return sums;
}

/* Lanes */

#define GE_X86_UNIT 32

typedef struct {
    __m256i q[4];
} ge_x86_lanes;

typedef struct {
    __m256i q[4];
} ge_x86_quads;

static inline GE_X86_INLINE const ge_x86_tap *ge_x86_taps_of(ge_x86_tap *room, const int8_t *image, int32_t count) {
    (void)room;
    (void)count;
    return image;
}

static inline GE_X86_INLINE ge_x86_quads ge_x86_interleave(const ge_x86_element *t0, const ge_x86_element *t1,
                                                           const ge_x86_element *t2, const ge_x86_element *t3) {
    const __m256i a = ge_x86_at(t0), b = ge_x86_at(t1), c = ge_x86_at(t2), d = ge_x86_at(t3);
    const __m256i ab0 = _mm256_unpacklo_epi8(a, b), ab1 = _mm256_unpackhi_epi8(a, b);
    const __m256i cd0 = _mm256_unpacklo_epi8(c, d), cd1 = _mm256_unpackhi_epi8(c, d);
    const ge_x86_quads quads = {{_mm256_unpacklo_epi16(ab0, cd0), _mm256_unpackhi_epi16(ab0, cd0),
                                 _mm256_unpacklo_epi16(ab1, cd1), _mm256_unpackhi_epi16(ab1, cd1)}};
    return quads;
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_load(const int32_t *from, int32_t unit) {
    ge_x86_lanes lanes;
    GE_X86_UNROLL
    for (int32_t i = 0; i < 4; i++) {
        lanes.q[i] = ge_x86_at(from + 16 * i + 8 * unit);
    }
    return lanes;
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_dot(ge_x86_lanes sums, const ge_x86_tap *w, int32_t unit,
                                                          ge_x86_quads x) {
    GE_X86_UNROLL
    for (int32_t i = 0; i < 4; i++) {
        sums.q[i] = _mm256_dpbusd_avx_epi32(sums.q[i], x.q[i], ge_x86_at(w + 64 * i + 32 * unit));
    }
    return sums;
}

#define GE_X86_LANES_REGISTERS 4
#define GE_X86_APART 4

static inline GE_X86_INLINE int32_t ge_x86_lanes_place(int32_t unit, int32_t i) {
    return 16 * i + 8 * unit;
}

static inline GE_X86_INLINE ge_x86_register ge_x86_lanes_register(ge_x86_lanes lanes, int32_t i) {
    return lanes.q[i];
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_with(ge_x86_lanes lanes, int32_t i, ge_x86_register x) {
    lanes.q[i] = x;
    return lanes;
}

static inline GE_X86_INLINE void ge_x86_lanes_store(int8_t *to, ge_x86_lanes y, int32_t count, const ge_x86_law *law) {
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(y.q[0], y.q[1]), _mm256_packs_epi32(y.q[2], y.q[3]));
    const __m256i bytes = _mm256_min_epi8(_mm256_max_epi8(packed, law->lo), law->hi);
    if (count == 32) {
        _mm256_storeu_si256((__m256i *)(void *)to, bytes);
    } else {
        int8_t all[32];
        _mm256_storeu_si256((__m256i *)(void *)all, bytes);
        memcpy(to, all, (size_t)count);
    }
}

#endif
