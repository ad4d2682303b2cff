/* Sixteen sums in two registers of 256 bits, for the levels AVX2 and AVX-VNNI; ge_x86_portable.h explains the names. */
#ifndef GE_X86_YMM_H
#define GE_X86_YMM_H

#include "ge.h"
#include "ge_x86.h"

#define GE_X86_FLOATS 8

typedef struct {
    __m256i half[2];
} ge_x86_sums;

typedef __m256i ge_x86_register;

typedef struct {
    __m256 magic;
    __m256i magic_bits;
    __m256i half;
    __m256i zero_point;
    __m256i lo;
    __m256i hi;
    __m128i right;
    __m128i left;
} ge_x86_law;

static inline GE_X86_INLINE __m256i ge_x86_at(const void *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_load(const int32_t *from) {
    const ge_x86_sums sums = {{ge_x86_at(from), ge_x86_at(from + 8)}};
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_zero(void) {
    const ge_x86_sums zero = {{_mm256_setzero_si256(), _mm256_setzero_si256()}};
    return zero;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_add(ge_x86_sums a, ge_x86_sums b) {
    a.half[0] = _mm256_add_epi32(a.half[0], b.half[0]);
    a.half[1] = _mm256_add_epi32(a.half[1], b.half[1]);
    return a;
}

static inline GE_X86_INLINE ge_x86_law ge_x86_law_of(int32_t shift, int32_t zero_point, int32_t lo, int32_t hi) {
    ge_x86_law law;
    law.magic = _mm256_set1_ps(12582912.0f + (float)zero_point);
    law.magic_bits = _mm256_set1_epi32(0x4B400000);
    law.half = _mm256_set1_epi64x((1LL << shift) >> 1);
    law.zero_point = _mm256_set1_epi32(zero_point);
    law.lo = _mm256_set1_epi8((char)lo);
    law.hi = _mm256_set1_epi8((char)hi);
    law.right = _mm_cvtsi32_si128(shift);
    law.left = _mm_cvtsi32_si128(32 - shift);
    return law;
}

static inline GE_X86_INLINE ge_x86_register ge_x86_register_of(ge_x86_sums sums, int32_t i) {
    return sums.half[i];
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_with_register(ge_x86_sums sums, int32_t i, ge_x86_register x) {
    sums.half[i] = x;
    return sums;
}

static inline GE_X86_INLINE __m256i ge_x86_pieces(const void *low, const void *high) {
    const __m256i both = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low));
    return _mm256_inserti128_si256(both, _mm_loadu_si128((const __m128i *)high), 1);
}

static inline GE_X86_INLINE ge_x86_register ge_x86_row_at(const int32_t *from, int32_t apart) {
    return apart == 4 ? ge_x86_at(from) : ge_x86_pieces(from, from + apart);
}

static inline GE_X86_INLINE __m256 ge_x86_float_row_at(const float *from, int32_t apart) {
    return _mm256_castsi256_ps(apart == 4 ? ge_x86_at(from) : ge_x86_pieces(from, from + apart));
}

static inline GE_X86_INLINE int32_t ge_x86_form(const float *rows) {
    return rows[0] < 0.0f ? -1 : (int32_t)rows[0];
}

static inline GE_X86_INLINE int32_t ge_x86_zero_point(const ge_x86_law *law) {
    return _mm_cvtsi128_si32(_mm256_castsi256_si128(law->zero_point));
}

static inline GE_X86_INLINE ge_x86_register ge_x86_multiply(ge_x86_register acc, ge_x86_register m,
                                                            const ge_x86_law *law) {
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(acc, m), law->half);
    const __m256i odd =
        _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(acc, 32), _mm256_srli_epi64(m, 32)), law->half);
    const __m256i y = _mm256_blend_epi32(_mm256_srl_epi64(even, law->right), _mm256_sll_epi64(odd, law->left), 0xAA);
    return _mm256_add_epi32(y, law->zero_point);
}

static inline GE_X86_INLINE ge_x86_register ge_x86_nearest(ge_x86_register acc, const float *rows, int32_t pitch,
                                                           int32_t apart, int32_t exceptions, int32_t away,
                                                           int32_t even, const ge_x86_law *law) {
    const __m256 sums = _mm256_cvtepi32_ps(acc), m = ge_x86_float_row_at(rows, apart);
    __m256 x = sums;
    if (away) {
        rows += pitch;
        const __m256 sign = _mm256_and_ps(sums, _mm256_set1_ps(-0.0f));
        x = _mm256_add_ps(sums, _mm256_or_ps(sign, ge_x86_float_row_at(rows, apart)));
    }
    __m256 y = _mm256_fmadd_ps(x, m, even ? _mm256_set1_ps(12582912.0f) : law->magic);
    for (; exceptions > 0; exceptions--) {
        const __m256 here = _mm256_cmp_ps(sums, ge_x86_float_row_at(rows + pitch, apart), _CMP_EQ_OQ);
        rows += 2 * pitch;
        y = _mm256_add_ps(y, _mm256_and_ps(here, ge_x86_float_row_at(rows, apart)));
    }
    const __m256i whole = _mm256_sub_epi32(_mm256_castps_si256(y), law->magic_bits);
    return even ? _mm256_add_epi32(whole, law->zero_point) : whole;
}

static inline GE_X86_INLINE ge_x86_register ge_x86_shifted(ge_x86_register acc, const int32_t *words, int32_t pitch,
                                                           int32_t apart, const ge_x86_law *law) {
    const __m256i multiplier = ge_x86_row_at(words, apart), pre = ge_x86_row_at(words + pitch, apart);
    const __m256i post = ge_x86_row_at(words + 2 * pitch, apart);
    const __m256i half = _mm256_srli_epi32(_mm256_sllv_epi32(_mm256_set1_epi32(1), post), 1);
    const __m256i product = _mm256_mullo_epi32(_mm256_srav_epi32(acc, pre), multiplier);
    return _mm256_add_epi32(_mm256_srav_epi32(_mm256_add_epi32(product, half), post), law->zero_point);
}

/* Clamps 32 outputs that were packed from four vectors of 8, and puts them in order. */
static inline GE_X86_INLINE __m256i ge_x86_clamped(__m256i packed, const ge_x86_law *law) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i bytes = _mm256_min_epi8(_mm256_max_epi8(packed, law->lo), law->hi);
    return _mm256_permutevar8x32_epi32(bytes, order);
}

/* Returns 16 outputs of a, then 16 of b. */
static inline GE_X86_INLINE __m256i ge_x86_bytes(ge_x86_sums a, ge_x86_sums b, const ge_x86_law *law) {
    return ge_x86_clamped(
        _mm256_packs_epi16(_mm256_packs_epi32(a.half[0], a.half[1]), _mm256_packs_epi32(b.half[0], b.half[1])), law);
}

static inline GE_X86_INLINE void ge_x86_store4(int8_t *const to[4], const ge_x86_sums y[4], int32_t pieces,
                                               const ge_x86_law *law) {
    GE_X86_UNROLL
    for (int32_t i = 0; i < 4; i += 2) {
        const __m256i bytes = ge_x86_bytes(y[i], y[i + 1], law);
        if (pieces < 4) {
            _mm256_storeu_si256((__m256i *)(void *)to[i], bytes);
        } else {
            _mm_storeu_si128((__m128i *)(void *)to[i], _mm256_castsi256_si128(bytes));
            _mm_storeu_si128((__m128i *)(void *)to[i + 1], _mm256_extracti128_si256(bytes, 1));
        }
    }
}

static inline GE_X86_INLINE void ge_x86_store_bytes(int8_t *to, __m128i bytes, int32_t count) {
    if (count == 16) {
        _mm_storeu_si128((__m128i *)(void *)to, bytes);
    } else {
        int8_t all[16];
        _mm_storeu_si128((__m128i *)(void *)all, bytes);
        memcpy(to, all, (size_t)count);
    }
}

/* Sixteen outputs as bytes, clamped. */
static inline GE_X86_INLINE __m128i ge_x86_narrowed(ge_x86_sums y, const ge_x86_law *law) {
    return _mm256_castsi256_si128(ge_x86_bytes(y, y, law));
}

static inline GE_X86_INLINE void ge_x86_store1(int8_t *to, ge_x86_sums y, int32_t count, const ge_x86_law *law) {
    ge_x86_store_bytes(to, ge_x86_narrowed(y, law), count);
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_neighbours(ge_x86_sums a, ge_x86_sums b) {
    const ge_x86_sums sums = {{_mm256_hadd_epi32(a.half[0], b.half[0]), _mm256_hadd_epi32(a.half[1], b.half[1])}};
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_widened(const int8_t *x, int32_t count) {
    int8_t all[16] = {0};
    ge_x86_sums sums;
    if (count < 16) {
        memcpy(all, x, (size_t)count);
        x = all;
    }
    GE_X86_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        sums.half[h] = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(x + 8 * h)));
    }
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_pair(ge_x86_sums a, ge_x86_sums b, int32_t multiplier_a,
                                                    int32_t multiplier_b, int32_t offset, int32_t shift, int32_t wide) {
    const int32_t both = (int32_t)((uint32_t)multiplier_b << 16 | ((uint32_t)multiplier_a & 0xFFFF));
    const __m256i m = _mm256_set1_epi32(both), ma = _mm256_set1_epi32(multiplier_a),
                  mb = _mm256_set1_epi32(multiplier_b);
    GE_X86_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        const __m256i x = a.half[h], y = b.half[h];
        const __m256i pairs = _mm256_blend_epi16(x, _mm256_slli_epi32(y, 16), 0xAA);
        const __m256i sums =
            wide ? _mm256_add_epi32(_mm256_mullo_epi32(x, ma), _mm256_mullo_epi32(y, mb)) : _mm256_madd_epi16(pairs, m);
        a.half[h] = _mm256_sra_epi32(_mm256_add_epi32(sums, _mm256_set1_epi32(offset)), _mm_cvtsi32_si128(shift));
    }
    return a;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_product(ge_x86_sums a, ge_x86_sums b, int32_t zero_a, int32_t zero_b) {
    GE_X86_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        const __m256i x = _mm256_sub_epi32(a.half[h], _mm256_set1_epi32(zero_a));
        a.half[h] = _mm256_mullo_epi32(x, _mm256_sub_epi32(b.half[h], _mm256_set1_epi32(zero_b)));
    }
    return a;
}

static inline GE_X86_INLINE void ge_x86_largest(int8_t *to, const int8_t *const *from, int32_t sources, int32_t count) {
    int32_t i = 0;
    while (i + 32 <= count) {
        __m256i largest = ge_x86_at(from[0] + i);
        GE_X86_UNROLL
        for (int32_t k = 1; k < sources; k++) {
            largest = _mm256_max_epi8(largest, ge_x86_at(from[k] + i));
        }
        _mm256_storeu_si256((__m256i *)(void *)(to + i), largest);
        i += i + 32 < count && i + 64 > count ? count - 32 - i : 32; /* the last vector overlaps the one before */
    }
    for (; i + 16 <= count; i += 16) {
        __m128i largest = _mm_loadu_si128((const __m128i *)(const void *)(from[0] + i));
        GE_X86_UNROLL
        for (int32_t k = 1; k < sources; k++) {
            largest = _mm_max_epi8(largest, _mm_loadu_si128((const __m128i *)(const void *)(from[k] + i)));
        }
        _mm_storeu_si128((__m128i *)(void *)(to + i), largest);
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
    __m256i part[16], before = _mm256_setzero_si256();
    GE_X86_UNROLL
    for (int32_t k = 0; k < 16; k++) {
        const __m256i entries =
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(table + 16 * k)));
        part[k] = _mm256_xor_si256(entries, before);
        before = k == 7 ? _mm256_setzero_si256() : entries;
    }
    int32_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const __m256i from = ge_x86_at(x + i), step = _mm256_set1_epi8(16);
        __m256i low = _mm256_xor_si256(from, _mm256_set1_epi8(-128)), high = from;
        __m256i a = _mm256_shuffle_epi8(part[0], low), b = _mm256_shuffle_epi8(part[8], high);
        GE_X86_UNROLL
        for (int32_t k = 1; k < 8; k++) {
            low = _mm256_subs_epi8(low, step);
            high = _mm256_subs_epi8(high, step);
            a = _mm256_xor_si256(a, _mm256_shuffle_epi8(part[k], low));
            b = _mm256_xor_si256(b, _mm256_shuffle_epi8(part[8 + k], high));
        }
        _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_xor_si256(a, b));
    }
    for (; i < count; i++) {
        to[i] = table[x[i] + 128];
    }
}

static inline GE_X86_INLINE __m256i ge_x86_float_sum_of(__m256i a, __m256i b, int32_t zero_a, int32_t zero_b,
                                                        const float *factors, int32_t apart, const ge_x86_law *law) {
    const __m256 x = _mm256_cvtepi32_ps(_mm256_sub_epi32(a, _mm256_set1_epi32(zero_a)));
    const __m256 z = _mm256_cvtepi32_ps(_mm256_sub_epi32(b, _mm256_set1_epi32(zero_b)));
    const __m256 left = _mm256_mul_ps(x, _mm256_set1_ps(factors[0])),
                 right = _mm256_mul_ps(z, _mm256_set1_ps(factors[1]));
    const __m256 half = _mm256_set1_ps(0.5f);
    __m256 y = _mm256_add_ps(left, right);
    if (apart) {
        y = _mm256_add_ps(_mm256_floor_ps(_mm256_add_ps(left, half)), _mm256_floor_ps(_mm256_add_ps(right, half)));
    } else {
        const __m256 sign = _mm256_and_ps(y, _mm256_set1_ps(-0.0f));
        y = _mm256_add_ps(y, _mm256_or_ps(sign, _mm256_set1_ps(factors[2])));
    }
    return _mm256_add_epi32(_mm256_cvtps_epi32(y), law->zero_point);
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_float_sum(ge_x86_sums a, ge_x86_sums b, int32_t zero_a, int32_t zero_b,
                                                         const float *factors, int32_t apart, const ge_x86_law *law) {
    GE_X86_UNROLL
    for (int32_t i = 0; i < 2; i++) {
        a.half[i] = ge_x86_float_sum_of(a.half[i], b.half[i], zero_a, zero_b, factors, apart, law);
    }
    return a;
}

#endif
