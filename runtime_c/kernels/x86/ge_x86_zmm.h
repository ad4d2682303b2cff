/* Sixteen sums at a time with AVX512-VNNI; ge_x86_portable.h explains the names. */
#ifndef GE_X86_ZMM_H
#define GE_X86_ZMM_H

#include "ge.h"
#include "ge_x86.h"

typedef uint8_t ge_x86_element;
typedef int8_t ge_x86_tap;
typedef __m512i ge_x86_sums;
typedef __m512i ge_x86_weights;
typedef __m512i ge_x86_input;
typedef __m512i ge_x86_register;

typedef struct {
    __m512 magic;
    __m512i half;
    __m512i zero_point;
    __m512i lo;
    __m512i hi;
    __m128i right;
    __m128i left;
    int32_t clamps; /* whether lo and hi are not those of int8 */
} ge_x86_law;

#define GE_X86_FLOATS 16
#define GE_X86_TAPS_BYTES(count) ((count) * 0)
#define GE_X86_TOGETHER 4
#define GE_X86_WINOGRAD 0
#define GE_X86_ROW_PAIRS 0
#define GE_X86_BYTES 0
#define GE_X86_SWEEP 1
#define GE_X86_SQUARES 1
#define GE_X86_SHORTS 1
#define GE_X86_TILES(T)                                                                                                \
    T(6, 4) T(5, 4) T(4, 4) T(3, 4) T(1, 4) T(12, 2) T(8, 2) T(5, 2) T(1, 2) T(16, 1) T(8, 1) T(5, 1) T(1, 1)
#define GE_X86_COLUMN_TILES(T) T(8, 2) T(7, 2) T(16, 1) T(14, 1)
#define GE_X86_RAW_TILES(T) T(6, 4) T(5, 4) T(4, 4) T(8, 2)

static inline GE_X86_INLINE ge_x86_sums ge_x86_load(const int32_t *from) {
    return _mm512_loadu_si512(from);
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_zero(void) {
    return _mm512_setzero_si512();
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_add(ge_x86_sums a, ge_x86_sums b) {
    return _mm512_add_epi32(a, b);
}

static inline GE_X86_INLINE const ge_x86_tap *ge_x86_blocks_of(ge_x86_tap *room, const int8_t *image, int32_t steps) {
    (void)room;
    (void)steps;
    return image;
}

static inline GE_X86_INLINE ge_x86_weights ge_x86_weights_at(const ge_x86_tap *w) {
    return _mm512_loadu_si512(w);
}

static inline GE_X86_INLINE ge_x86_input ge_x86_input_at(const ge_x86_element *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_dot(ge_x86_sums sums, ge_x86_weights w, ge_x86_input x) {
    return _mm512_dpbusd_epi32(sums, x, w);
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_dot_four(ge_x86_sums sums, const int8_t *w, const ge_x86_element *x) {
    return ge_x86_dot(sums, ge_x86_weights_at(w), ge_x86_input_at(x));
}

static inline GE_X86_INLINE ge_x86_law ge_x86_law_of(int32_t shift, int32_t zero_point, int32_t lo, int32_t hi) {
    ge_x86_law law;
    law.magic = _mm512_set1_ps(12582912.0f + (float)zero_point);
    law.half = _mm512_set1_epi64((1LL << shift) >> 1);
    law.zero_point = _mm512_set1_epi32(zero_point);
    law.lo = _mm512_set1_epi8((char)lo);
    law.hi = _mm512_set1_epi8((char)hi);
    law.right = _mm_cvtsi32_si128(shift);
    law.left = _mm_cvtsi32_si128(32 - shift);
    law.clamps = lo > INT8_MIN || hi < INT8_MAX;
    return law;
}

static inline GE_X86_INLINE ge_x86_register ge_x86_register_of(ge_x86_sums sums, int32_t i) {
    (void)i;
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_with_register(ge_x86_sums sums, int32_t i, ge_x86_register x) {
    (void)sums;
    (void)i;
    return x;
}

static inline GE_X86_INLINE ge_x86_register ge_x86_row_at(const int32_t *from, int32_t apart) {
    (void)apart;
    return _mm512_loadu_si512(from);
}

static inline GE_X86_INLINE int32_t ge_x86_form(const float *rows) {
    return rows[0] < 0.0f ? -1 : (int32_t)rows[0];
}

static inline GE_X86_INLINE int32_t ge_x86_zero_point(const ge_x86_law *law) {
    return _mm_cvtsi128_si32(_mm512_castsi512_si128(law->zero_point));
}

/* Saturates to int16; outputs of this level are shorts, the low halves of int32 numbers whose high halves do not
 * matter. */
static inline GE_X86_INLINE __m512i ge_x86_short(__m512i x) {
    return _mm512_max_epi32(_mm512_min_epi32(x, _mm512_set1_epi32(INT16_MAX)), _mm512_set1_epi32(INT16_MIN));
}

/* The output before it becomes a short. */
static inline GE_X86_INLINE ge_x86_register ge_x86_multiply_long(ge_x86_register acc, ge_x86_register m,
                                                                 const ge_x86_law *law) {
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(acc, m), law->half);
    const __m512i odd =
        _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(acc, 32), _mm512_srli_epi64(m, 32)), law->half);
    const __m512i y =
        _mm512_mask_blend_epi32(0xAAAA, _mm512_srl_epi64(even, law->right), _mm512_sll_epi64(odd, law->left));
    return _mm512_add_epi32(y, law->zero_point);
}

static inline GE_X86_INLINE ge_x86_register ge_x86_multiply(ge_x86_register acc, ge_x86_register m,
                                                            const ge_x86_law *law) {
    return ge_x86_short(ge_x86_multiply_long(acc, m, law));
}

static inline GE_X86_INLINE ge_x86_register ge_x86_negated(ge_x86_register x) {
    return _mm512_sub_epi32(_mm512_setzero_si512(), x);
}

static inline GE_X86_INLINE ge_x86_register ge_x86_nearest(ge_x86_register acc, const float *rows, int32_t pitch,
                                                           int32_t apart, int32_t exceptions, int32_t away,
                                                           int32_t even, const ge_x86_law *law) {
    const __m512 sums = _mm512_cvtepi32_ps(acc), m = _mm512_loadu_ps(rows);
    __m512 x = sums;
    (void)apart;
    if (away) {
        rows += pitch;
        const __m512i sign = _mm512_and_si512(_mm512_castps_si512(sums), _mm512_set1_epi32(INT32_MIN));
        const __m512i step = _mm512_or_si512(sign, _mm512_castps_si512(_mm512_loadu_ps(rows)));
        x = _mm512_add_ps(sums, _mm512_castsi512_ps(step));
    }
    __m512 y = _mm512_fmadd_ps(x, m, even ? _mm512_set1_ps(12582912.0f) : law->magic);
    for (; exceptions > 0; exceptions--) {
        const __mmask16 here = _mm512_cmp_ps_mask(sums, _mm512_loadu_ps(rows + pitch), _CMP_EQ_OQ);
        rows += 2 * pitch;
        y = _mm512_mask_add_ps(y, here, y, _mm512_loadu_ps(rows));
    }
    const __m512i whole = _mm512_castps_si512(y); /* the low half of 1.5 * 2^23 is 0 */
    return even ? _mm512_add_epi32(whole, law->zero_point) : whole;
}

static inline GE_X86_INLINE ge_x86_register ge_x86_shifted(ge_x86_register acc, const int32_t *words, int32_t pitch,
                                                           int32_t apart, const ge_x86_law *law) {
    const __m512i multiplier = ge_x86_row_at(words, apart), pre = ge_x86_row_at(words + pitch, apart);
    const __m512i post = ge_x86_row_at(words + 2 * pitch, apart);
    const __m512i half = _mm512_srli_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(1), post), 1);
    const __m512i product = _mm512_mullo_epi32(_mm512_srav_epi32(acc, pre), multiplier);
    return ge_x86_short(_mm512_add_epi32(_mm512_srav_epi32(_mm512_add_epi32(product, half), post), law->zero_point));
}

static inline GE_X86_INLINE __m512i ge_x86_clamped(__m512i bytes, const ge_x86_law *law) {
    return law->clamps ? _mm512_min_epi8(_mm512_max_epi8(bytes, law->lo), law->hi) : bytes;
}

/* The low halves of a, then of b, in each lane. */
static inline GE_X86_INLINE __m512i ge_x86_low(__m512i a, __m512i b) {
    const __m512i lanes = _mm512_set_epi16(62, 60, 58, 56, 30, 28, 26, 24, 54, 52, 50, 48, 22, 20, 18, 16, 46, 44, 42,
                                           40, 14, 12, 10, 8, 38, 36, 34, 32, 6, 4, 2, 0);
    return _mm512_permutex2var_epi16(a, lanes, b);
}

/* Stores 64 bytes that were packed from four vectors, in order and clamped. */
static inline GE_X86_INLINE void ge_x86_store_packed(int8_t *const to[4], __m512i packed, int32_t pieces,
                                                     const ge_x86_law *law) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_permutexvar_epi32(order, ge_x86_clamped(packed, law));
    if (pieces == 1) {
        _mm512_storeu_si512(to[0], bytes);
    } else if (pieces == 2) {
        _mm256_storeu_si256((__m256i *)(void *)to[0], _mm512_castsi512_si256(bytes));
        _mm256_storeu_si256((__m256i *)(void *)to[2], _mm512_extracti64x4_epi64(bytes, 1));
    } else {
        _mm_storeu_si128((__m128i *)(void *)to[0], _mm512_castsi512_si128(bytes));
        _mm_storeu_si128((__m128i *)(void *)to[1], _mm512_extracti32x4_epi32(bytes, 1));
        _mm_storeu_si128((__m128i *)(void *)to[2], _mm512_extracti32x4_epi32(bytes, 2));
        _mm_storeu_si128((__m128i *)(void *)to[3], _mm512_extracti32x4_epi32(bytes, 3));
    }
}

static inline GE_X86_INLINE void ge_x86_store4(int8_t *const to[4], const ge_x86_sums y[4], int32_t pieces,
                                               const ge_x86_law *law) {
    const __m512i low = _mm512_packs_epi32(y[0], y[1]), high = _mm512_packs_epi32(y[2], y[3]);
    ge_x86_store_packed(to, _mm512_packs_epi16(low, high), pieces, law);
}

static inline GE_X86_INLINE void ge_x86_store_shorts4(int8_t *const to[4], const ge_x86_sums y[4], int32_t pieces,
                                                      const ge_x86_law *law) {
    ge_x86_store_packed(to, _mm512_packs_epi16(ge_x86_low(y[0], y[1]), ge_x86_low(y[2], y[3])), pieces, law);
}

static inline GE_X86_INLINE void ge_x86_store1(int8_t *to, ge_x86_sums y, int32_t count, const ge_x86_law *law) {
    const __m128i bytes = _mm512_cvtsepi32_epi8(y), clamped = _mm_max_epi8(bytes, _mm512_castsi512_si128(law->lo));
    _mm_mask_storeu_epi8(to, (__mmask16)((1u << count) - 1), _mm_min_epi8(clamped, _mm512_castsi512_si128(law->hi)));
}

static inline GE_X86_INLINE void ge_x86_store_shorts1(int8_t *to, ge_x86_sums y, int32_t count, const ge_x86_law *law) {
    ge_x86_store1(to, _mm512_srai_epi32(_mm512_slli_epi32(y, 16), 16), count, law);
}

static inline GE_X86_INLINE void ge_x86_fill(ge_x86_element *to, ge_x86_element x, int32_t count) {
    const __m512i all = _mm512_set1_epi8((char)x);
    for (; count >= 64; count -= 64, to += 64) {
        _mm512_storeu_si512(to, all);
    }
    _mm512_mask_storeu_epi8(to, ((__mmask64)1 << count) - 1, all);
}

static inline GE_X86_INLINE void ge_x86_expand(ge_x86_element *to, const int8_t *from, int32_t count) {
    const __m512i flip = _mm512_set1_epi8(-128);
    for (; count >= 64; count -= 64, to += 64, from += 64) {
        _mm512_storeu_si512(to, _mm512_xor_si512(_mm512_loadu_si512(from), flip));
    }
    if (count > 0) {
        const __mmask64 some = ((__mmask64)1 << count) - 1;
        _mm512_mask_storeu_epi8(to, some, _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, from), flip));
    }
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_widened(const int8_t *x, int32_t count) {
    if (count == 16) {
        return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)x));
    }
    return _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8((__mmask16)((1u << count) - 1), x));
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_pair(ge_x86_sums a, ge_x86_sums b, int32_t multiplier_a,
                                                    int32_t multiplier_b, int32_t offset, int32_t shift, int32_t wide) {
    const __m512i half = _mm512_set1_epi32(offset);
    __m512i sums;
    if (wide) {
        const __m512i left = _mm512_mullo_epi32(a, _mm512_set1_epi32(multiplier_a));
        sums = _mm512_add_epi32(left, _mm512_mullo_epi32(b, _mm512_set1_epi32(multiplier_b)));
    } else {
        const int32_t both = (int32_t)((uint32_t)multiplier_b << 16 | ((uint32_t)multiplier_a & 0xFFFF));
        const __m512i pairs = _mm512_mask_blend_epi16(0xAAAAAAAA, a, _mm512_slli_epi32(b, 16));
        sums = _mm512_madd_epi16(pairs, _mm512_set1_epi32(both));
    }
    return _mm512_sra_epi32(_mm512_add_epi32(sums, half), _mm_cvtsi32_si128(shift));
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_product(ge_x86_sums a, ge_x86_sums b, int32_t zero_a, int32_t zero_b) {
    const __m512i x = _mm512_sub_epi32(a, _mm512_set1_epi32(zero_a)),
                  y = _mm512_sub_epi32(b, _mm512_set1_epi32(zero_b));
    return _mm512_mullo_epi32(x, y);
}

static inline GE_X86_INLINE void ge_x86_largest(int8_t *to, const int8_t *const *from, int32_t sources, int32_t count) {
    int32_t i = 0;
    for (; i + 64 <= count; i += 64) {
        __m512i largest = _mm512_loadu_si512(from[0] + i);
        GE_X86_UNROLL
        for (int32_t k = 1; k < sources; k++) {
            largest = _mm512_max_epi8(largest, _mm512_loadu_si512(from[k] + i));
        }
        _mm512_storeu_si512(to + i, largest);
    }
    if (i < count) {
        const __mmask64 some = ((__mmask64)1 << (count - i)) - 1;
        __m512i largest = _mm512_maskz_loadu_epi8(some, from[0] + i);
        GE_X86_UNROLL
        for (int32_t k = 1; k < sources; k++) {
            largest = _mm512_max_epi8(largest, _mm512_maskz_loadu_epi8(some, from[k] + i));
        }
        _mm512_mask_storeu_epi8(to + i, some, largest);
    }
}

/* Looks up bytes with both halves of the table in two registers each. */
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi"))) static void
ge_x86_look_up_vbmi(int8_t *to, const int8_t *x, int32_t count, const int8_t *table) {
    const __m512i a = _mm512_loadu_si512(table), b = _mm512_loadu_si512(table + 64);
    const __m512i c = _mm512_loadu_si512(table + 128), d = _mm512_loadu_si512(table + 192);
    for (int32_t i = 0; i < count; i += 64) {
        const __mmask64 some = count - i < 64 ? ((__mmask64)1 << (count - i)) - 1 : ~(__mmask64)0;
        const __m512i from = _mm512_maskz_loadu_epi8(some, x + i);
        const __m512i low = _mm512_permutex2var_epi8(a, from, b), high = _mm512_permutex2var_epi8(c, from, d);
        _mm512_mask_storeu_epi8(to + i, some, _mm512_mask_blend_epi8(_mm512_movepi8_mask(from), high, low));
    }
}

/* Each sixteen entries of the table are xored with the sixteen before. A byte shuffle looks up all of them; the xor of
 * those up to the block of x is its entry, and later blocks give 0, as indices are negative there. */
static inline GE_X86_INLINE void ge_x86_look_up(int8_t *to, const int8_t *x, int32_t count, const int8_t *table) {
    __m512i part[16], before = _mm512_setzero_si512();
    if (ge_x86_has_vbmi()) {
        ge_x86_look_up_vbmi(to, x, count, table);
        return;
    }
    GE_X86_UNROLL
    for (int32_t k = 0; k < 16; k++) {
        const __m512i entries =
            _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(table + 16 * k)));
        part[k] = _mm512_xor_si512(entries, before);
        before = k == 7 ? _mm512_setzero_si512() : entries;
    }
    for (int32_t i = 0; i < count; i += 64) {
        const __mmask64 some = count - i < 64 ? ((__mmask64)1 << (count - i)) - 1 : ~(__mmask64)0;
        const __m512i from = _mm512_maskz_loadu_epi8(some, x + i), step = _mm512_set1_epi8(16);
        __m512i low = _mm512_xor_si512(from, _mm512_set1_epi8(-128)), high = from;
        __m512i a = _mm512_shuffle_epi8(part[0], low), b = _mm512_shuffle_epi8(part[8], high);
        GE_X86_UNROLL
        for (int32_t k = 1; k < 8; k++) {
            low = _mm512_subs_epi8(low, step);
            high = _mm512_subs_epi8(high, step);
            a = _mm512_xor_si512(a, _mm512_shuffle_epi8(part[k], low));
            b = _mm512_xor_si512(b, _mm512_shuffle_epi8(part[8 + k], high));
        }
        _mm512_mask_storeu_epi8(to + i, some, _mm512_xor_si512(a, b));
    }
}

static inline GE_X86_INLINE __m512i ge_x86_float_sum_of(__m512i a, __m512i b, int32_t zero_a, int32_t zero_b,
                                                        const float *factors, int32_t apart, const ge_x86_law *law) {
    const __m512 x = _mm512_cvtepi32_ps(_mm512_sub_epi32(a, _mm512_set1_epi32(zero_a)));
    const __m512 z = _mm512_cvtepi32_ps(_mm512_sub_epi32(b, _mm512_set1_epi32(zero_b)));
    const __m512 left = _mm512_mul_ps(x, _mm512_set1_ps(factors[0])),
                 right = _mm512_mul_ps(z, _mm512_set1_ps(factors[1]));
    const __m512 half = _mm512_set1_ps(0.5f);
    __m512 y = _mm512_add_ps(left, right);
    if (apart) {
        y = _mm512_add_ps(_mm512_floor_ps(_mm512_add_ps(left, half)), _mm512_floor_ps(_mm512_add_ps(right, half)));
    } else {
        const __m512i sign = _mm512_and_si512(_mm512_castps_si512(y), _mm512_set1_epi32(INT32_MIN));
        const __m512i away = _mm512_or_si512(sign, _mm512_castps_si512(_mm512_set1_ps(factors[2])));
        y = _mm512_add_ps(y, _mm512_castsi512_ps(away));
    }
    return _mm512_add_epi32(_mm512_cvtps_epi32(y), law->zero_point);
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_float_sum(ge_x86_sums a, ge_x86_sums b, int32_t zero_a, int32_t zero_b,
                                                         const float *factors, int32_t apart, const ge_x86_law *law) {
    return ge_x86_float_sum_of(a, b, zero_a, zero_b, factors, apart, law);
}

/* Sixteen channels, four times */

#define GE_X86_SIXTEEN_TILES(T) T(16, 1) T(14, 1) T(8, 1) T(4, 1) T(1, 1) T(8, 2) T(7, 2) T(4, 2) T(1, 2)

typedef __m512i ge_x86_sixteen;
typedef __m512i ge_x86_fours;

static inline GE_X86_INLINE const ge_x86_tap *ge_x86_fours_taps(ge_x86_tap *room, const int8_t *image, int32_t count) {
    (void)room;
    (void)count;
    return image;
}

static inline GE_X86_INLINE ge_x86_sixteen ge_x86_sixteen_at(const ge_x86_element *x) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)x));
}

static inline GE_X86_INLINE ge_x86_fours ge_x86_fours_zero(void) {
    return _mm512_setzero_si512();
}

static inline GE_X86_INLINE ge_x86_fours ge_x86_fours_dot(ge_x86_fours sums, const ge_x86_tap *w, ge_x86_sixteen x) {
    return _mm512_dpbusd_epi32(sums, x, _mm512_loadu_si512(w));
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_fours_sums(ge_x86_fours sums) {
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_neighbours(ge_x86_sums a, ge_x86_sums b) {
    const __m512 x = _mm512_castsi512_ps(a), y = _mm512_castsi512_ps(b);
    const __m512i first = _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0x88));
    return _mm512_add_epi32(first, _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0xDD)));
}

/* The order of the bytes of ge_x86_store_turned1, in each lane. */
static inline GE_X86_INLINE __m512i ge_x86_turned(__m512i bytes, int32_t parts) {
    const __m128i one = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i two = _mm_setr_epi8(0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15);
    return _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(parts == 2 ? two : one));
}

/* Sixteen outputs as bytes, in that order. */
static inline GE_X86_INLINE __m128i ge_x86_turned1(ge_x86_sums y, int32_t parts, const ge_x86_law *law) {
    const __m128i packed = _mm512_cvtsepi32_epi8(_mm512_srai_epi32(_mm512_slli_epi32(y, 16), 16));
    return _mm512_castsi512_si128(ge_x86_turned(ge_x86_clamped(_mm512_castsi128_si512(packed), law), parts));
}

static inline GE_X86_INLINE void ge_x86_store_turned1(int8_t *to, ge_x86_sums y, int32_t parts, const ge_x86_law *law) {
    _mm_storeu_si128((__m128i *)(void *)to, ge_x86_turned1(y, parts, law));
}

static inline GE_X86_INLINE void ge_x86_store_apart(int8_t *to, ge_x86_sums y, const ge_x86_law *law) {
    _mm256_mask_storeu_epi32(to, 0x55, _mm256_cvtepu32_epi64(ge_x86_turned1(y, 1, law)));
}

static inline GE_X86_INLINE void ge_x86_store_turned4(int8_t *const to[4], const ge_x86_sums y[4], int32_t parts,
                                                      const ge_x86_law *law) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i packed = _mm512_packs_epi16(ge_x86_low(y[0], y[1]), ge_x86_low(y[2], y[3]));
    const __m512i bytes = ge_x86_turned(_mm512_permutexvar_epi32(order, ge_x86_clamped(packed, law)), parts);
    _mm_storeu_si128((__m128i *)(void *)to[0], _mm512_castsi512_si128(bytes));
    _mm_storeu_si128((__m128i *)(void *)to[1], _mm512_extracti32x4_epi32(bytes, 1));
    _mm_storeu_si128((__m128i *)(void *)to[2], _mm512_extracti32x4_epi32(bytes, 2));
    _mm_storeu_si128((__m128i *)(void *)to[3], _mm512_extracti32x4_epi32(bytes, 3));
}

/* Lanes */

#define GE_X86_UNIT 64

typedef struct {
    __m512i q[4];
} ge_x86_lanes;

typedef struct {
    __m512i q[4];
} ge_x86_quads;

static inline GE_X86_INLINE const ge_x86_tap *ge_x86_taps_of(ge_x86_tap *room, const int8_t *image, int32_t count) {
    (void)room;
    (void)count;
    return image;
}

static inline GE_X86_INLINE ge_x86_quads ge_x86_quads_of(__m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i ab0 = _mm512_unpacklo_epi8(a, b), ab1 = _mm512_unpackhi_epi8(a, b);
    const __m512i cd0 = _mm512_unpacklo_epi8(c, d), cd1 = _mm512_unpackhi_epi8(c, d);
    const ge_x86_quads quads = {{_mm512_unpacklo_epi16(ab0, cd0), _mm512_unpackhi_epi16(ab0, cd0),
                                 _mm512_unpacklo_epi16(ab1, cd1), _mm512_unpackhi_epi16(ab1, cd1)}};
    return quads;
}

static inline GE_X86_INLINE ge_x86_quads ge_x86_interleave(const ge_x86_element *t0, const ge_x86_element *t1,
                                                           const ge_x86_element *t2, const ge_x86_element *t3) {
    return ge_x86_quads_of(_mm512_loadu_si512(t0), _mm512_loadu_si512(t1), _mm512_loadu_si512(t2),
                           _mm512_loadu_si512(t3));
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_load(const int32_t *from, int32_t unit) {
    ge_x86_lanes lanes;
    (void)unit;
    GE_X86_UNROLL
    for (int32_t i = 0; i < 4; i++) {
        lanes.q[i] = _mm512_loadu_si512(from + 16 * i);
    }
    return lanes;
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_dot(ge_x86_lanes sums, const ge_x86_tap *w, int32_t unit,
                                                          ge_x86_quads x) {
    (void)unit;
    GE_X86_UNROLL
    for (int32_t i = 0; i < 4; i++) {
        sums.q[i] = _mm512_dpbusd_epi32(sums.q[i], x.q[i], _mm512_loadu_si512(w + 64 * i));
    }
    return sums;
}

#define GE_X86_LANES_REGISTERS 4
#define GE_X86_APART 4

static inline GE_X86_INLINE int32_t ge_x86_lanes_place(int32_t unit, int32_t i) {
    (void)unit;
    return 16 * i;
}

static inline GE_X86_INLINE ge_x86_register ge_x86_lanes_register(ge_x86_lanes lanes, int32_t i) {
    return lanes.q[i];
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_with(ge_x86_lanes lanes, int32_t i, ge_x86_register x) {
    lanes.q[i] = x;
    return lanes;
}

static inline GE_X86_INLINE void ge_x86_lanes_store(int8_t *to, ge_x86_lanes y, int32_t count, const ge_x86_law *law) {
    const __m512i packed = _mm512_packs_epi16(ge_x86_low(y.q[0], y.q[1]), ge_x86_low(y.q[2], y.q[3]));
    const __m512i bytes = ge_x86_clamped(packed, law);
    if (count == 64) {
        _mm512_storeu_si512(to, bytes);
    } else {
        _mm512_mask_storeu_epi8(to, ((__mmask64)1 << count) - 1, bytes);
    }
}

#endif
