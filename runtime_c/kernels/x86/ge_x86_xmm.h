/* Sixteen sums in four registers of 128 bits, SSE4.1: PMADDWD of int16 pairs; ge_x86_portable.h explains the names. */
#ifndef GE_X86_XMM_H
#define GE_X86_XMM_H

#include "ge.h"
#include "ge_x86.h"

typedef int16_t ge_x86_element;
typedef int16_t ge_x86_tap;

typedef struct {
    __m128i quarter[4];
} ge_x86_sums;

typedef __m128i ge_x86_input; /* one pair, four times */
typedef __m128i ge_x86_register;

/* The weights of 16 outputs for a pair of inputs. */
typedef struct {
    __m128i quarter[4];
} ge_x86_weights;

typedef struct {
    __m128i half;
    __m128i zero_point;
    __m128i lo;
    __m128i hi;
    __m128i right;
    __m128i left;
} ge_x86_law;

#define GE_X86_FLOATS 4
#define GE_X86_TAPS_BYTES(count) ((count) * 2)
#define GE_X86_TOGETHER 2
#define GE_X86_WINOGRAD 0
#define GE_X86_ROW_PAIRS 0
#define GE_X86_BYTES 0
#define GE_X86_SWEEP 0
#define GE_X86_SQUARES 1
#define GE_X86_SHORTS 0
#define GE_X86_TILES(T) T(2, 1) T(1, 1)
#define GE_X86_COLUMN_TILES(T)
#define GE_X86_RAW_TILES(T)

static inline GE_X86_INLINE __m128i ge_x86_at(const void *from) {
    return _mm_loadu_si128((const __m128i *)from);
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_load(const int32_t *from) {
    const ge_x86_sums sums = {{ge_x86_at(from), ge_x86_at(from + 4), ge_x86_at(from + 8), ge_x86_at(from + 12)}};
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_zero(void) {
    const __m128i zero = _mm_setzero_si128();
    const ge_x86_sums sums = {{zero, zero, zero, zero}};
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_add(ge_x86_sums a, ge_x86_sums b) {
    GE_X86_UNROLL
    for (int32_t q = 0; q < 4; q++) {
        a.quarter[q] = _mm_add_epi32(a.quarter[q], b.quarter[q]);
    }
    return a;
}

/* Widens [4 outputs][4 bytes] to int16 pairs of each output: bytes 0 and 1, bytes 2 and 3. */
static inline GE_X86_INLINE void ge_x86_widen(__m128i bytes, __m128i pair[2]) {
    const __m128i front = _mm_set_epi64x(0x0D0C0C0C09080808, 0x0504040401000000);
    const __m128i back = _mm_set_epi64x(0x0F0E0E0E0B0A0A0A, 0x0706060603020202);
    pair[0] = _mm_srai_epi16(_mm_shuffle_epi8(bytes, front), 8);
    pair[1] = _mm_srai_epi16(_mm_shuffle_epi8(bytes, back), 8);
}

static inline GE_X86_INLINE const ge_x86_tap *ge_x86_blocks_of(ge_x86_tap *room, const int8_t *image, int32_t steps) {
    for (int32_t at = 0; at < 64 * steps; at += 64) {
        GE_X86_UNROLL
        for (int32_t q = 0; q < 4; q++) {
            __m128i pair[2];
            ge_x86_widen(ge_x86_at(image + at + 16 * q), pair);
            _mm_storeu_si128((__m128i *)(void *)(room + at + 8 * q), pair[0]);
            _mm_storeu_si128((__m128i *)(void *)(room + at + 8 * q + 32), pair[1]);
        }
    }
    return room;
}

static inline GE_X86_INLINE ge_x86_weights ge_x86_weights_at(const ge_x86_tap *w) {
    const ge_x86_weights weights = {{ge_x86_at(w), ge_x86_at(w + 8), ge_x86_at(w + 16), ge_x86_at(w + 24)}};
    return weights;
}

static inline GE_X86_INLINE ge_x86_input ge_x86_input_at(const ge_x86_element *x) {
    return _mm_shuffle_epi32(_mm_loadu_si32(x), 0x00);
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_dot(ge_x86_sums sums, ge_x86_weights w, ge_x86_input x) {
    GE_X86_UNROLL
    for (int32_t q = 0; q < 4; q++) {
        sums.quarter[q] = _mm_add_epi32(sums.quarter[q], _mm_madd_epi16(w.quarter[q], x));
    }
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_dot_four(ge_x86_sums sums, const int8_t *w, const ge_x86_element *x) {
    const ge_x86_input first = ge_x86_input_at(x), second = ge_x86_input_at(x + 2);
    GE_X86_UNROLL
    for (int32_t q = 0; q < 4; q++) {
        __m128i pair[2];
        ge_x86_widen(ge_x86_at(w + 16 * q), pair);
        sums.quarter[q] = _mm_add_epi32(sums.quarter[q], _mm_madd_epi16(pair[0], first));
        sums.quarter[q] = _mm_add_epi32(sums.quarter[q], _mm_madd_epi16(pair[1], second));
    }
    return sums;
}

static inline GE_X86_INLINE ge_x86_law ge_x86_law_of(int32_t shift, int32_t zero_point, int32_t lo, int32_t hi) {
    ge_x86_law law;
    law.half = _mm_set1_epi64x((1LL << shift) >> 1);
    law.zero_point = _mm_set1_epi32(zero_point);
    law.lo = _mm_set1_epi8((char)lo);
    law.hi = _mm_set1_epi8((char)hi);
    law.right = _mm_cvtsi32_si128(shift);
    law.left = _mm_cvtsi32_si128(32 - shift);
    return law;
}

static inline GE_X86_INLINE int32_t ge_x86_zero_point(const ge_x86_law *law) {
    return _mm_cvtsi128_si32(law->zero_point);
}

static inline GE_X86_INLINE __m128i ge_x86_multiply(__m128i acc, __m128i m, const ge_x86_law *law) {
    const __m128i even = _mm_add_epi64(_mm_mul_epi32(acc, m), law->half);
    const __m128i odd = _mm_add_epi64(_mm_mul_epi32(_mm_srli_epi64(acc, 32), _mm_srli_epi64(m, 32)), law->half);
    const __m128i y = _mm_blend_epi16(_mm_srl_epi64(even, law->right), _mm_sll_epi64(odd, law->left), 0xCC);
    return _mm_add_epi32(y, law->zero_point);
}

static inline GE_X86_INLINE ge_x86_register ge_x86_register_of(ge_x86_sums sums, int32_t i) {
    return sums.quarter[i];
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_with_register(ge_x86_sums sums, int32_t i, ge_x86_register x) {
    sums.quarter[i] = x;
    return sums;
}

static inline GE_X86_INLINE ge_x86_register ge_x86_row_at(const int32_t *from, int32_t apart) {
    (void)apart;
    return ge_x86_at(from);
}

static inline GE_X86_INLINE int32_t ge_x86_form(const float *rows) {
    return rows[0] < 0.0f ? -1 : (int32_t)rows[0];
}

/* Products of floats are exact in doubles: adding 1.5 * 2^52 rounds them once and leaves the integer in the low
 * word. */
static inline GE_X86_INLINE ge_x86_register ge_x86_nearest(ge_x86_register acc, const float *rows, int32_t pitch,
                                                           int32_t apart, int32_t exceptions, int32_t away,
                                                           int32_t even, const ge_x86_law *law) {
    const __m128 sums = _mm_cvtepi32_ps(acc), m = _mm_loadu_ps(rows);
    const __m128d magic = _mm_set1_pd(6755399441055744.0);
    const __m128d zero = _mm_cvtepi32_pd(even ? _mm_setzero_si128() : law->zero_point);
    __m128 x = sums;
    (void)apart;
    if (away) {
        rows += pitch;
        x = _mm_add_ps(sums, _mm_or_ps(_mm_and_ps(sums, _mm_set1_ps(-0.0f)), _mm_loadu_ps(rows)));
    }
    const __m128d low = _mm_mul_pd(_mm_cvtps_pd(x), _mm_cvtps_pd(m));
    const __m128d high = _mm_mul_pd(_mm_cvtps_pd(_mm_movehl_ps(x, x)), _mm_cvtps_pd(_mm_movehl_ps(m, m)));
    const __m128d start = _mm_add_pd(magic, zero);
    __m128i y = _mm_castps_si128(
        _mm_shuffle_ps(_mm_castpd_ps(_mm_add_pd(low, start)), _mm_castpd_ps(_mm_add_pd(high, start)), 0x88));
    for (; exceptions > 0; exceptions--) {
        const __m128 here = _mm_cmpeq_ps(sums, _mm_loadu_ps(rows + pitch));
        rows += 2 * pitch;
        y = _mm_add_epi32(y, _mm_cvtps_epi32(_mm_and_ps(here, _mm_loadu_ps(rows))));
    }
    return even ? _mm_add_epi32(y, law->zero_point) : y;
}

/* Computes the outputs one by one: this level cannot shift each number by a different amount. */
static inline GE_X86_INLINE ge_x86_register ge_x86_shifted(ge_x86_register acc, const int32_t *words, int32_t pitch,
                                                           int32_t apart, const ge_x86_law *law) {
    int32_t y[4];
    (void)apart;
    _mm_storeu_si128((__m128i *)(void *)y, acc);
    GE_X86_UNROLL
    for (int32_t i = 0; i < 4; i++) {
        const int32_t post = words[2 * pitch + i];
        y[i] = ((y[i] >> words[pitch + i]) * words[i] + ((1 << post) >> 1)) >> post;
    }
    return _mm_add_epi32(ge_x86_at(y), law->zero_point);
}

/* Sixteen outputs as bytes, clamped. */
static inline GE_X86_INLINE __m128i ge_x86_narrowed(ge_x86_sums y, const ge_x86_law *law) {
    const __m128i packed =
        _mm_packs_epi16(_mm_packs_epi32(y.quarter[0], y.quarter[1]), _mm_packs_epi32(y.quarter[2], y.quarter[3]));
    return _mm_min_epi8(_mm_max_epi8(packed, law->lo), law->hi);
}

static inline GE_X86_INLINE void ge_x86_store1(int8_t *to, ge_x86_sums y, int32_t count, const ge_x86_law *law) {
    const __m128i bytes = ge_x86_narrowed(y, law);
    if (count == 16) {
        _mm_storeu_si128((__m128i *)(void *)to, bytes);
        return;
    }
    int8_t sixteen[16];
    _mm_storeu_si128((__m128i *)(void *)sixteen, bytes);
    memcpy(to, sixteen, (size_t)count);
}

static inline GE_X86_INLINE void ge_x86_store4(int8_t *const to[4], const ge_x86_sums y[4], int32_t pieces,
                                               const ge_x86_law *law) {
    (void)pieces;
    GE_X86_UNROLL
    for (int32_t v = 0; v < 4; v++) {
        ge_x86_store1(to[v], y[v], 16, law);
    }
}

static inline GE_X86_INLINE void ge_x86_fill(ge_x86_element *to, ge_x86_element x, int32_t count) {
    for (; count >= 8; count -= 8, to += 8) {
        _mm_storeu_si128((__m128i *)(void *)to, _mm_set1_epi16(x));
    }
    for (int32_t i = 0; i < count; i++) {
        to[i] = x;
    }
}

static inline GE_X86_INLINE void ge_x86_expand(ge_x86_element *to, const int8_t *from, int32_t count) {
    const __m128i up = _mm_set1_epi16(128);
    for (; count >= 8; count -= 8, to += 8, from += 8) {
        const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)from));
        _mm_storeu_si128((__m128i *)(void *)to, _mm_add_epi16(wide, up));
    }
    for (int32_t i = 0; i < count; i++) {
        to[i] = (int16_t)(from[i] + 128);
    }
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_neighbours(ge_x86_sums a, ge_x86_sums b) {
    GE_X86_UNROLL
    for (int32_t q = 0; q < 4; q++) {
        a.quarter[q] = _mm_hadd_epi32(a.quarter[q], b.quarter[q]);
    }
    return a;
}

/* Sixteen channels: a word for each four weights, and sums of two of them */

#define GE_X86_SIXTEEN_TILES(T) T(1, 1) T(1, 2)

typedef struct {
    __m128i half[2];
} ge_x86_sixteen;

typedef struct {
    __m128i half[4][2];
} ge_x86_fours;

static inline GE_X86_INLINE const ge_x86_tap *ge_x86_fours_taps(ge_x86_tap *room, const int8_t *image, int32_t count) {
    for (int32_t i = 0; i < count; i += 8) {
        const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(image + i));
        _mm_storeu_si128((__m128i *)(void *)(room + i), _mm_cvtepi8_epi16(bytes));
    }
    return room;
}

static inline GE_X86_INLINE ge_x86_sixteen ge_x86_sixteen_at(const ge_x86_element *x) {
    const ge_x86_sixteen sixteen = {{ge_x86_at(x), ge_x86_at(x + 8)}};
    return sixteen;
}

static inline GE_X86_INLINE ge_x86_fours ge_x86_fours_zero(void) {
    ge_x86_fours zero;
    GE_X86_UNROLL
    for (int32_t i = 0; i < 8; i++) {
        zero.half[i / 2][i % 2] = _mm_setzero_si128();
    }
    return zero;
}

static inline GE_X86_INLINE ge_x86_fours ge_x86_fours_dot(ge_x86_fours sums, const ge_x86_tap *w, ge_x86_sixteen x) {
    GE_X86_UNROLL
    for (int32_t i = 0; i < 8; i++) {
        const __m128i product = _mm_madd_epi16(ge_x86_at(w + 8 * i), x.half[i % 2]);
        sums.half[i / 2][i % 2] = _mm_add_epi32(sums.half[i / 2][i % 2], product);
    }
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_fours_sums(ge_x86_fours sums) {
    ge_x86_sums whole;
    GE_X86_UNROLL
    for (int32_t q = 0; q < 4; q++) {
        whole.quarter[q] = _mm_hadd_epi32(sums.half[q][0], sums.half[q][1]);
    }
    return whole;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_widened(const int8_t *x, int32_t count) {
    int8_t all[16] = {0};
    if (count < 16) {
        memcpy(all, x, (size_t)count);
        x = all;
    }
    const __m128i bytes = ge_x86_at(x);
    const ge_x86_sums sums = {{_mm_cvtepi8_epi32(bytes), _mm_cvtepi8_epi32(_mm_srli_si128(bytes, 4)),
                               _mm_cvtepi8_epi32(_mm_srli_si128(bytes, 8)),
                               _mm_cvtepi8_epi32(_mm_srli_si128(bytes, 12))}};
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_pair(ge_x86_sums a, ge_x86_sums b, int32_t multiplier_a,
                                                    int32_t multiplier_b, int32_t offset, int32_t shift, int32_t wide) {
    const int32_t both = (int32_t)((uint32_t)multiplier_b << 16 | ((uint32_t)multiplier_a & 0xFFFF));
    const __m128i m = _mm_set1_epi32(both), ma = _mm_set1_epi32(multiplier_a), mb = _mm_set1_epi32(multiplier_b);
    GE_X86_UNROLL
    for (int32_t q = 0; q < 4; q++) {
        const __m128i x = a.quarter[q], y = b.quarter[q];
        const __m128i pairs = _mm_blend_epi16(x, _mm_slli_epi32(y, 16), 0xAA);
        const __m128i sums =
            wide ? _mm_add_epi32(_mm_mullo_epi32(x, ma), _mm_mullo_epi32(y, mb)) : _mm_madd_epi16(pairs, m);
        a.quarter[q] = _mm_sra_epi32(_mm_add_epi32(sums, _mm_set1_epi32(offset)), _mm_cvtsi32_si128(shift));
    }
    return a;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_product(ge_x86_sums a, ge_x86_sums b, int32_t zero_a, int32_t zero_b) {
    GE_X86_UNROLL
    for (int32_t q = 0; q < 4; q++) {
        const __m128i x = _mm_sub_epi32(a.quarter[q], _mm_set1_epi32(zero_a));
        a.quarter[q] = _mm_mullo_epi32(x, _mm_sub_epi32(b.quarter[q], _mm_set1_epi32(zero_b)));
    }
    return a;
}

static inline GE_X86_INLINE void ge_x86_largest(int8_t *to, const int8_t *const *from, int32_t sources, int32_t count) {
    int32_t i = 0;
    while (i + 16 <= count) {
        __m128i largest = ge_x86_at(from[0] + i);
        GE_X86_UNROLL
        for (int32_t k = 1; k < sources; k++) {
            largest = _mm_max_epi8(largest, ge_x86_at(from[k] + i));
        }
        _mm_storeu_si128((__m128i *)(void *)(to + i), largest);
        i += i + 16 < count && i + 32 > count ? count - 16 - i : 16; /* the last vector overlaps the one before */
    }
    for (; i < count; i++) {
        int8_t largest = from[0][i];
        for (int32_t k = 1; k < sources; k++) {
            largest = from[k][i] > largest ? from[k][i] : largest;
        }
        to[i] = largest;
    }
}

/* Each sixteen entries of the table are xored with the sixteen before. A byte shuffle looks up all of them; the xor of
 * those up to the block of x is its entry, and later blocks give 0, as indices are negative there. */
static inline GE_X86_INLINE void ge_x86_look_up(int8_t *to, const int8_t *x, int32_t count, const int8_t *table) {
    __m128i part[16], before = _mm_setzero_si128();
    GE_X86_UNROLL
    for (int32_t k = 0; k < 16; k++) {
        const __m128i entries = ge_x86_at(table + 16 * k);
        part[k] = _mm_xor_si128(entries, before);
        before = k == 7 ? _mm_setzero_si128() : entries;
    }
    int32_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const __m128i from = ge_x86_at(x + i), step = _mm_set1_epi8(16);
        __m128i low = _mm_xor_si128(from, _mm_set1_epi8(-128)), high = from;
        __m128i a = _mm_shuffle_epi8(part[0], low), b = _mm_shuffle_epi8(part[8], high);
        GE_X86_UNROLL
        for (int32_t k = 1; k < 8; k++) {
            low = _mm_subs_epi8(low, step);
            high = _mm_subs_epi8(high, step);
            a = _mm_xor_si128(a, _mm_shuffle_epi8(part[k], low));
            b = _mm_xor_si128(b, _mm_shuffle_epi8(part[8 + k], high));
        }
        _mm_storeu_si128((__m128i *)(void *)(to + i), _mm_xor_si128(a, b));
    }
    for (; i < count; i++) {
        to[i] = table[x[i] + 128];
    }
}

static inline GE_X86_INLINE __m128i ge_x86_float_sum_of(__m128i a, __m128i b, int32_t zero_a, int32_t zero_b,
                                                        const float *factors, int32_t apart, const ge_x86_law *law) {
    const __m128 x = _mm_cvtepi32_ps(_mm_sub_epi32(a, _mm_set1_epi32(zero_a)));
    const __m128 z = _mm_cvtepi32_ps(_mm_sub_epi32(b, _mm_set1_epi32(zero_b)));
    const __m128 left = _mm_mul_ps(x, _mm_set1_ps(factors[0])), right = _mm_mul_ps(z, _mm_set1_ps(factors[1]));
    const __m128 half = _mm_set1_ps(0.5f);
    __m128 y = _mm_add_ps(left, right);
    if (apart) {
        y = _mm_add_ps(_mm_floor_ps(_mm_add_ps(left, half)), _mm_floor_ps(_mm_add_ps(right, half)));
    } else {
        const __m128 sign = _mm_and_ps(y, _mm_set1_ps(-0.0f));
        y = _mm_add_ps(y, _mm_or_ps(sign, _mm_set1_ps(factors[2])));
    }
    return _mm_add_epi32(_mm_cvtps_epi32(y), law->zero_point);
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_float_sum(ge_x86_sums a, ge_x86_sums b, int32_t zero_a, int32_t zero_b,
                                                         const float *factors, int32_t apart, const ge_x86_law *law) {
    GE_X86_UNROLL
    for (int32_t i = 0; i < 4; i++) {
        a.quarter[i] = ge_x86_float_sum_of(a.quarter[i], b.quarter[i], zero_a, zero_b, factors, apart, law);
    }
    return a;
}

/* Lanes: quarter[q] holds channels 4q..4q + 3 of 16 */

#define GE_X86_UNIT 16

typedef ge_x86_sums ge_x86_lanes;

typedef struct {
    __m128i pair[4][2];
} ge_x86_quads;

static inline GE_X86_INLINE const ge_x86_tap *ge_x86_taps_of(ge_x86_tap *room, const int8_t *image, int32_t count) {
    for (int32_t at = 0; at < count; at += 256) {
        for (int32_t i = 0; i < 16; i++) {
            __m128i pair[2];
            ge_x86_widen(ge_x86_at(image + at + 16 * (i / 4) + 64 * (i % 4)), pair);
            _mm_storeu_si128((__m128i *)(void *)(room + at + 16 * i), pair[0]);
            _mm_storeu_si128((__m128i *)(void *)(room + at + 16 * i + 8), pair[1]);
        }
    }
    return room;
}

static inline GE_X86_INLINE ge_x86_quads ge_x86_interleave(const ge_x86_element *t0, const ge_x86_element *t1,
                                                           const ge_x86_element *t2, const ge_x86_element *t3) {
    ge_x86_quads quads;
    GE_X86_UNROLL
    for (int32_t i = 0; i < 2; i++) {
        const __m128i a = ge_x86_at(t0 + 8 * i), b = ge_x86_at(t1 + 8 * i);
        const __m128i c = ge_x86_at(t2 + 8 * i), d = ge_x86_at(t3 + 8 * i);
        quads.pair[2 * i][0] = _mm_unpacklo_epi16(a, b);
        quads.pair[2 * i][1] = _mm_unpacklo_epi16(c, d);
        quads.pair[2 * i + 1][0] = _mm_unpackhi_epi16(a, b);
        quads.pair[2 * i + 1][1] = _mm_unpackhi_epi16(c, d);
    }
    return quads;
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_load(const int32_t *from, int32_t unit) {
    ge_x86_lanes lanes;
    GE_X86_UNROLL
    for (int32_t q = 0; q < 4; q++) {
        lanes.quarter[q] = ge_x86_at(from + 16 * q + 4 * unit);
    }
    return lanes;
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_dot(ge_x86_lanes sums, const ge_x86_tap *w, int32_t unit,
                                                          ge_x86_quads x) {
    GE_X86_UNROLL
    for (int32_t q = 0; q < 4; q++) {
        const ge_x86_tap *const at = w + 64 * unit + 16 * q;
        const __m128i first = _mm_madd_epi16(x.pair[q][0], ge_x86_at(at));
        const __m128i second = _mm_madd_epi16(x.pair[q][1], ge_x86_at(at + 8));
        sums.quarter[q] = _mm_add_epi32(sums.quarter[q], _mm_add_epi32(first, second));
    }
    return sums;
}

#define GE_X86_LANES_REGISTERS 4
#define GE_X86_APART 4

static inline GE_X86_INLINE int32_t ge_x86_lanes_place(int32_t unit, int32_t i) {
    return 16 * i + 4 * unit;
}

static inline GE_X86_INLINE ge_x86_register ge_x86_lanes_register(ge_x86_lanes lanes, int32_t i) {
    return lanes.quarter[i];
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_with(ge_x86_lanes lanes, int32_t i, ge_x86_register x) {
    lanes.quarter[i] = x;
    return lanes;
}

static inline GE_X86_INLINE void ge_x86_lanes_store(int8_t *to, ge_x86_lanes y, int32_t count, const ge_x86_law *law) {
    ge_x86_store1(to, y, count, law);
}

#endif
