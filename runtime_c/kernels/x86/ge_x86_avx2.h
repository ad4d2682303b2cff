/* Products of AVX2: VPMADDWD of int16 pairs, exact on all data (VPMADDUBSW may saturate; ge_x86_bytes.h uses it where
 * it cannot). Inputs are stored as int16, and weights are widened to int16 before use: a byte shuffle puts them into
 * the high halves of words, and an arithmetic shift moves them down. A product and its addition are two instructions on
 * three ports: at most 24 MACs per cycle. */
#ifndef GE_X86_AVX2_H
#define GE_X86_AVX2_H

#include "ge_x86_ymm.h"

typedef int16_t ge_x86_element;
typedef int16_t ge_x86_tap;
typedef __m256i ge_x86_input; /* one pair, eight times */

/* The weights of 16 outputs for a pair of inputs. */
typedef struct {
    __m256i half[2];
} ge_x86_weights;

#define GE_X86_TAPS_BYTES(count) ((count) * 2)
#define GE_X86_TOGETHER 2
#define GE_X86_WINOGRAD 1
#define GE_X86_ROW_PAIRS 1
#define GE_X86_BYTES 1
#define GE_X86_SWEEP 0
#define GE_X86_SQUARES 1
#define GE_X86_SHORTS 0
#define GE_X86_TILES(T) T(6, 1) T(5, 1) T(4, 1) T(3, 1) T(1, 1)
#define GE_X86_COLUMN_TILES(T)
#define GE_X86_RAW_TILES(T)

/* Widens [8 outputs][4 bytes] to int16 pairs of each output: bytes 0 and 1, bytes 2 and 3. */
static inline GE_X86_INLINE void ge_x86_widen(__m256i bytes, __m256i pair[2]) {
    const __m256i front =
        _mm256_setr_epi64x(0x0504040401000000, 0x0D0C0C0C09080808, 0x0504040401000000, 0x0D0C0C0C09080808);
    const __m256i back =
        _mm256_setr_epi64x(0x0706060603020202, 0x0F0E0E0E0B0A0A0A, 0x0706060603020202, 0x0F0E0E0E0B0A0A0A);
    pair[0] = _mm256_srai_epi16(_mm256_shuffle_epi8(bytes, front), 8);
    pair[1] = _mm256_srai_epi16(_mm256_shuffle_epi8(bytes, back), 8);
}

static inline GE_X86_INLINE const ge_x86_tap *ge_x86_blocks_of(ge_x86_tap *room, const int8_t *image, int32_t steps) {
    for (int32_t at = 0; at < 64 * steps; at += 64) {
        GE_X86_UNROLL
        for (int32_t h = 0; h < 2; h++) {
            __m256i pair[2];
            ge_x86_widen(ge_x86_at(image + at + 32 * h), pair);
            _mm256_storeu_si256((__m256i *)(void *)(room + at + 16 * h), pair[0]);
            _mm256_storeu_si256((__m256i *)(void *)(room + at + 16 * h + 32), pair[1]);
        }
    }
    return room;
}

static inline GE_X86_INLINE ge_x86_weights ge_x86_weights_at(const ge_x86_tap *w) {
    const ge_x86_weights weights = {{ge_x86_at(w), ge_x86_at(w + 16)}};
    return weights;
}

static inline GE_X86_INLINE ge_x86_input ge_x86_input_at(const ge_x86_element *x) {
    return _mm256_broadcastd_epi32(_mm_loadu_si32(x));
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_dot(ge_x86_sums sums, ge_x86_weights w, ge_x86_input x) {
    sums.half[0] = _mm256_add_epi32(sums.half[0], _mm256_madd_epi16(w.half[0], x));
    sums.half[1] = _mm256_add_epi32(sums.half[1], _mm256_madd_epi16(w.half[1], x));
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_dot_four(ge_x86_sums sums, const int8_t *w, const ge_x86_element *x) {
    const ge_x86_input first = ge_x86_input_at(x), second = ge_x86_input_at(x + 2);
    GE_X86_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        __m256i pair[2];
        ge_x86_widen(ge_x86_at(w + 32 * h), pair);
        sums.half[h] = _mm256_add_epi32(sums.half[h], _mm256_madd_epi16(pair[0], first));
        sums.half[h] = _mm256_add_epi32(sums.half[h], _mm256_madd_epi16(pair[1], second));
    }
    return sums;
}

static inline GE_X86_INLINE void ge_x86_fill(ge_x86_element *to, ge_x86_element x, int32_t count) {
    for (; count >= 16; count -= 16, to += 16) {
        _mm256_storeu_si256((__m256i *)(void *)to, _mm256_set1_epi16(x));
    }
    for (int32_t i = 0; i < count; i++) {
        to[i] = x;
    }
}

static inline GE_X86_INLINE void ge_x86_expand(ge_x86_element *to, const int8_t *from, int32_t count) {
    const __m256i up = _mm256_set1_epi16(128);
    for (; count >= 16; count -= 16, to += 16, from += 16) {
        const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
        _mm256_storeu_si256((__m256i *)(void *)to, _mm256_add_epi16(wide, up));
    }
    for (; count >= 8; count -= 8, to += 8, from += 8) {
        const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)from));
        _mm_storeu_si128((__m128i *)(void *)to, _mm_add_epi16(wide, _mm256_castsi256_si128(up)));
    }
    for (int32_t i = 0; i < count; i++) {
        to[i] = (int16_t)(from[i] + 128);
    }
}

/* Sixteen channels: a word for each four weights, and sums of two of them */

#define GE_X86_SIXTEEN_TILES(T) T(2, 1) T(1, 1) T(1, 2)

typedef __m256i ge_x86_sixteen;

typedef struct {
    __m256i of[4];
} ge_x86_fours;

static inline GE_X86_INLINE const ge_x86_tap *ge_x86_fours_taps(ge_x86_tap *room, const int8_t *image, int32_t count) {
    for (int32_t i = 0; i < count; i += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(image + i));
        _mm256_storeu_si256((__m256i *)(void *)(room + i), _mm256_cvtepi8_epi16(bytes));
    }
    return room;
}

static inline GE_X86_INLINE ge_x86_sixteen ge_x86_sixteen_at(const ge_x86_element *x) {
    return ge_x86_at(x);
}

static inline GE_X86_INLINE ge_x86_fours ge_x86_fours_zero(void) {
    const __m256i zero = _mm256_setzero_si256();
    const ge_x86_fours fours = {{zero, zero, zero, zero}};
    return fours;
}

static inline GE_X86_INLINE ge_x86_fours ge_x86_fours_dot(ge_x86_fours sums, const ge_x86_tap *w, ge_x86_sixteen x) {
    GE_X86_UNROLL
    for (int32_t l = 0; l < 4; l++) {
        sums.of[l] = _mm256_add_epi32(sums.of[l], _mm256_madd_epi16(ge_x86_at(w + 16 * l), x));
    }
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_fours_sums(ge_x86_fours sums) {
    ge_x86_sums whole;
    GE_X86_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        whole.half[h] = _mm256_permute4x64_epi64(_mm256_hadd_epi32(sums.of[2 * h], sums.of[2 * h + 1]), 0xD8);
    }
    return whole;
}

/* Lanes: half[0] holds channels 0..3 and 8..11 of 16, half[1] the others */

#define GE_X86_UNIT 16

typedef struct {
    __m256i half[2];
} ge_x86_lanes;

typedef struct {
    __m256i pair[2][2];
} ge_x86_quads;

static inline GE_X86_INLINE const ge_x86_tap *ge_x86_taps_of(ge_x86_tap *room, const int8_t *image, int32_t count) {
    for (int32_t at = 0; at < count; at += 256) {
        for (int32_t i = 0; i < 8; i++) {
            const int8_t *const from = image + at + 16 * (i / 2) + 64 * (i % 2);
            __m256i pair[2];
            ge_x86_widen(ge_x86_pieces(from, from + 128), pair);
            _mm256_storeu_si256((__m256i *)(void *)(room + at + 32 * i), pair[0]);
            _mm256_storeu_si256((__m256i *)(void *)(room + at + 32 * i + 16), pair[1]);
        }
    }
    return room;
}

static inline GE_X86_INLINE ge_x86_quads ge_x86_interleave(const ge_x86_element *t0, const ge_x86_element *t1,
                                                           const ge_x86_element *t2, const ge_x86_element *t3) {
    const __m256i a = ge_x86_at(t0), b = ge_x86_at(t1), c = ge_x86_at(t2), d = ge_x86_at(t3);
    const ge_x86_quads quads = {{{_mm256_unpacklo_epi16(a, b), _mm256_unpacklo_epi16(c, d)},
                                 {_mm256_unpackhi_epi16(a, b), _mm256_unpackhi_epi16(c, d)}}};
    return quads;
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_load(const int32_t *from, int32_t unit) {
    const int32_t *const at = from + 4 * unit;
    const ge_x86_lanes lanes = {{ge_x86_pieces(at, at + 32), ge_x86_pieces(at + 16, at + 48)}};
    return lanes;
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_dot(ge_x86_lanes sums, const ge_x86_tap *w, int32_t unit,
                                                          ge_x86_quads x) {
    GE_X86_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        const ge_x86_tap *const at = w + 64 * unit + 32 * h;
        const __m256i first = _mm256_madd_epi16(x.pair[h][0], ge_x86_at(at));
        const __m256i second = _mm256_madd_epi16(x.pair[h][1], ge_x86_at(at + 16));
        sums.half[h] = _mm256_add_epi32(sums.half[h], _mm256_add_epi32(first, second));
    }
    return sums;
}

#define GE_X86_LANES_REGISTERS 2
#define GE_X86_APART 32

static inline GE_X86_INLINE int32_t ge_x86_lanes_place(int32_t unit, int32_t i) {
    return 16 * i + 4 * unit;
}

static inline GE_X86_INLINE ge_x86_register ge_x86_lanes_register(ge_x86_lanes lanes, int32_t i) {
    return lanes.half[i];
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_with(ge_x86_lanes lanes, int32_t i, ge_x86_register x) {
    lanes.half[i] = x;
    return lanes;
}

static inline GE_X86_INLINE void ge_x86_lanes_store(int8_t *to, ge_x86_lanes y, int32_t count, const ge_x86_law *law) {
    const __m256i words = _mm256_packs_epi32(y.half[0], y.half[1]);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi16(words, words), 0x08);
    const __m256i bytes = _mm256_min_epi8(_mm256_max_epi8(packed, law->lo), law->hi);
    ge_x86_store_bytes(to, _mm256_castsi256_si128(bytes), count);
}

#endif
