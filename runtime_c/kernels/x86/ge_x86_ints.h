/* Vectors of four-byte numbers as wide as the registers of a level: int32, the bits of float32, or pairs of int16.
 *
 * A vector has GE_X86_FLOATS numbers. The law is that of int16 (ge_wide.h), which is the default law of int8 too, for
 * sums and outputs that fit int32; `glowembed compile` proves that they do. */
#ifndef GE_X86_INTS_H
#define GE_X86_INTS_H

#include "ge.h"
#include "ge_float.h"
#include "ge_quantize.h"
#include "ge_wide.h"
#include "ge_x86_portable.h"

#if GE_X86_FLOATS > 1

typedef int32_t ge_x86_ints __attribute__((vector_size(4 * GE_X86_FLOATS), aligned(4), may_alias));
typedef int64_t ge_x86_longs __attribute__((vector_size(4 * GE_X86_FLOATS), aligned(8), may_alias));

#undef GE_X86_OP
#if GE_X86_FLOATS == 16
#define GE_X86_OP(name) _mm512_##name
typedef __m512i ge_x86_whole;
#elif GE_X86_FLOATS == 8
#define GE_X86_OP(name) _mm256_##name
typedef __m256i ge_x86_whole;
#else
#define GE_X86_OP(name) _mm_##name
typedef __m128i ge_x86_whole;
#endif

typedef struct {
    ge_x86_longs half;
    ge_x86_ints zero_point, lo, hi;
    __m128i right, left, more;
} ge_x86_wide_law;

/* Where layers of different sizes share a constant, gcc warns about loads in loops that one of them never enters. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
static inline GE_X86_INLINE ge_x86_ints ge_x86_ints_at(const void *from) {
    return *(const ge_x86_ints *)from;
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_halves_at(const void *from) {
#if GE_X86_FLOATS == 16
    return (ge_x86_ints)_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)from));
#elif GE_X86_FLOATS == 8
    return (ge_x86_ints)_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)from));
#else
    return (ge_x86_ints)_mm_cvtepi16_epi32(_mm_loadl_epi64((const __m128i *)from));
#endif
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_octets_at(const void *from) {
#if GE_X86_FLOATS == 16
    return (ge_x86_ints)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from));
#elif GE_X86_FLOATS == 8
    return (ge_x86_ints)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from));
#else
    return (ge_x86_ints)_mm_cvtepi8_epi32(_mm_loadu_si32(from));
#endif
}
#pragma GCC diagnostic pop

static inline GE_X86_INLINE ge_x86_ints ge_x86_ints_all(int32_t x) {
    return (ge_x86_ints)GE_X86_OP(set1_epi32)(x);
}

static inline GE_X86_INLINE ge_x86_floats ge_x86_floats_all(float x) {
    return (ge_x86_floats)GE_X86_OP(set1_ps)(x);
}

static inline GE_X86_INLINE ge_x86_floats ge_x86_floats_of(ge_x86_ints x) {
    return (ge_x86_floats)GE_X86_OP(cvtepi32_ps)((ge_x86_whole)x);
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_whole_ints(ge_x86_floats x) {
    return (ge_x86_ints)GE_X86_OP(cvttps_epi32)(x);
}

/* Returns y where x is a number, and x where it is NaN. */
static inline GE_X86_INLINE ge_x86_floats ge_x86_unless_nan(ge_x86_floats y, ge_x86_floats x) {
    const ge_x86_ints number = (ge_x86_ints)(x == x);
    return (ge_x86_floats)((number & (ge_x86_ints)y) | (~number & (ge_x86_ints)x));
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_nearest_ints(ge_x86_floats x) {
    const ge_x86_ints number = (ge_x86_ints)(x == x);
    return (ge_x86_ints)GE_X86_OP(cvtps_epi32)(x) & number;
}

static inline GE_X86_INLINE void ge_x86_store_ints(void *to, ge_x86_ints x) {
    *(ge_x86_ints *)to = x;
}

static inline GE_X86_INLINE void ge_x86_store_halves(void *to, ge_x86_ints x) {
#if GE_X86_FLOATS == 16
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtepi32_epi16((ge_x86_whole)x));
#elif GE_X86_FLOATS == 8
    const ge_x86_whole both = _mm256_packs_epi32((ge_x86_whole)x, (ge_x86_whole)x);
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(_mm256_permute4x64_epi64(both, 0x08)));
#else
    _mm_storel_epi64((__m128i *)to, _mm_packs_epi32((ge_x86_whole)x, (ge_x86_whole)x));
#endif
}

static inline GE_X86_INLINE void ge_x86_store_octets(void *to, ge_x86_ints x) {
#if GE_X86_FLOATS == 16
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8((ge_x86_whole)x));
#elif GE_X86_FLOATS == 8
    const __m128i low = _mm256_castsi256_si128((ge_x86_whole)x);
    const __m128i both = _mm_packs_epi32(low, _mm256_extracti128_si256((ge_x86_whole)x, 1));
    _mm_storel_epi64((__m128i *)to, _mm_packs_epi16(both, both));
#else
    const __m128i words = _mm_packs_epi32((ge_x86_whole)x, (ge_x86_whole)x);
    const int32_t four = _mm_cvtsi128_si32(_mm_packs_epi16(words, words));
    memcpy(to, &four, sizeof four);
#endif
}

static inline GE_X86_INLINE ge_x86_floats ge_x86_as_floats(ge_x86_ints x) {
    return (ge_x86_floats)x;
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_as_ints(ge_x86_floats x) {
    return (ge_x86_ints)x;
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_most(ge_x86_ints a, ge_x86_ints b) {
    return (ge_x86_ints)GE_X86_OP(max_epi32)((ge_x86_whole)a, (ge_x86_whole)b);
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_least(ge_x86_ints a, ge_x86_ints b) {
    return (ge_x86_ints)GE_X86_OP(min_epi32)((ge_x86_whole)a, (ge_x86_whole)b);
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_low_product(ge_x86_ints a, ge_x86_ints b) {
    return (ge_x86_ints)GE_X86_OP(mullo_epi32)((ge_x86_whole)a, (ge_x86_whole)b);
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_dot_pairs(ge_x86_ints sums, ge_x86_ints a, ge_x86_ints b) {
    return sums + (ge_x86_ints)GE_X86_OP(madd_epi16)((ge_x86_whole)a, (ge_x86_whole)b);
}

static inline GE_X86_INLINE ge_x86_wide_law ge_x86_wide_law_of(int32_t shift, int32_t zero_point, int32_t lo,
                                                               int32_t hi) {
    const int32_t right = shift < 32 ? shift : 32;
    const ge_x86_whole one = GE_X86_OP(srli_epi64)(GE_X86_OP(set1_epi32)(1), 32);
    ge_x86_wide_law law;
    law.half = (ge_x86_longs)GE_X86_OP(sll_epi64)(one, _mm_cvtsi32_si128(shift - 1));
    law.zero_point = ge_x86_ints_all(zero_point);
    law.lo = ge_x86_ints_all(lo);
    law.hi = ge_x86_ints_all(hi);
    law.right = _mm_cvtsi32_si128(right);
    law.left = _mm_cvtsi32_si128(32 - right);
    law.more = _mm_cvtsi32_si128(shift - right);
    return law;
}

/* Products of the numbers 0, 2, 4 and so on. */
static inline GE_X86_INLINE ge_x86_longs ge_x86_evens(ge_x86_ints a, ge_x86_ints b) {
    return (ge_x86_longs)GE_X86_OP(mul_epi32)((ge_x86_whole)a, (ge_x86_whole)b);
}

/* Moves numbers 1, 3, 5 and so on to the places of those before them. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_odds(ge_x86_ints a) {
    return (ge_x86_ints)GE_X86_OP(srli_epi64)((ge_x86_whole)a, 32);
}

/* Requantizes 64-bit products, of the numbers 0, 2, .. and 1, 3, .., to outputs. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_rounded(ge_x86_longs even, ge_x86_longs odd,
                                                       const ge_x86_wide_law *law) {
    const ge_x86_longs low = (ge_x86_longs)GE_X86_OP(srl_epi64)((ge_x86_whole)(even + law->half), law->right);
    const ge_x86_longs high = (ge_x86_longs)GE_X86_OP(sll_epi64)((ge_x86_whole)(odd + law->half), law->left);
    const ge_x86_longs both = (low & 0xFFFFFFFFLL) | (high & ~0xFFFFFFFFLL);
    const ge_x86_ints y = (ge_x86_ints)GE_X86_OP(sra_epi32)((ge_x86_whole)both, law->more) + law->zero_point;
    return ge_x86_least(ge_x86_most(y, law->lo), law->hi);
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_scaled(ge_x86_ints x, ge_x86_ints multiplier,
                                                      const ge_x86_wide_law *law) {
    return ge_x86_rounded(ge_x86_evens(x, multiplier), ge_x86_evens(ge_x86_odds(x), ge_x86_odds(multiplier)), law);
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_scaled_pair(ge_x86_ints a, ge_x86_ints b, ge_x86_ints multiplier_a,
                                                           ge_x86_ints multiplier_b, const ge_x86_wide_law *law) {
    const ge_x86_longs even = ge_x86_evens(a, multiplier_a) + ge_x86_evens(b, multiplier_b);
    const ge_x86_longs odd = ge_x86_evens(ge_x86_odds(a), multiplier_a) + ge_x86_evens(ge_x86_odds(b), multiplier_b);
    return ge_x86_rounded(even, odd, law);
}

/* x * multiplier for products x of two 17-bit numbers: the upper part of x and its lower 16 bits are multiplied
 * separately. */
static inline GE_X86_INLINE ge_x86_longs ge_x86_long_product(ge_x86_ints a, ge_x86_ints b, ge_x86_ints multiplier) {
    const ge_x86_longs x = ge_x86_evens(a, b);
    const ge_x86_ints upper = (ge_x86_ints)GE_X86_OP(srli_epi64)((ge_x86_whole)x, 16);
    const ge_x86_whole product = (ge_x86_whole)ge_x86_evens(upper, multiplier);
    return (ge_x86_longs)GE_X86_OP(slli_epi64)(product, 16) + ge_x86_evens((ge_x86_ints)(x & 0xFFFFLL), multiplier);
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_scaled_product(ge_x86_ints a, ge_x86_ints b, ge_x86_ints multiplier,
                                                              const ge_x86_wide_law *law) {
    return ge_x86_rounded(ge_x86_long_product(a, b, multiplier),
                          ge_x86_long_product(ge_x86_odds(a), ge_x86_odds(b), multiplier), law);
}

/* table[at] for each number. Without optimization, a gather is a macro of gcc that converts a mask. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
static inline GE_X86_INLINE ge_x86_ints ge_x86_looked_up(const int32_t *table, ge_x86_ints at) {
#if GE_X86_FLOATS == 16
    return (ge_x86_ints)_mm512_i32gather_epi32((ge_x86_whole)at, table, 4);
#elif GE_X86_FLOATS == 8
    return (ge_x86_ints)_mm256_i32gather_epi32(table, (ge_x86_whole)at, 4);
#else
    const ge_x86_ints found = {table[at[0]], table[at[1]], table[at[2]], table[at[3]]};
    return found;
#endif
}
#pragma GCC diagnostic pop

/* Returns a where x is below 0, and b elsewhere. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_by_sign(ge_x86_ints x, ge_x86_ints a, ge_x86_ints b) {
    const ge_x86_ints below = x >> 31;
    return (below & a) | (~below & b);
}

static inline GE_X86_INLINE ge_x86_floats ge_x86_larger(ge_x86_floats a, ge_x86_floats b) {
    return (ge_x86_floats)GE_X86_OP(max_ps)(a, b);
}

static inline GE_X86_INLINE ge_x86_floats ge_x86_smaller(ge_x86_floats a, ge_x86_floats b) {
    return (ge_x86_floats)GE_X86_OP(min_ps)(a, b);
}

#else

typedef int32_t ge_x86_ints;

typedef struct {
    int32_t shift, zero_point, lo, hi;
} ge_x86_wide_law;

static inline GE_X86_INLINE ge_x86_ints ge_x86_ints_at(const void *from) {
    int32_t x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* Loads int16 and widens them. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_halves_at(const void *from) {
    return *(const int16_t *)from;
}

/* Loads int8 and widens them. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_octets_at(const void *from) {
    return *(const int8_t *)from;
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_ints_all(int32_t x) {
    return x;
}

static inline GE_X86_INLINE ge_x86_floats ge_x86_floats_all(float x) {
    return x;
}

static inline GE_X86_INLINE ge_x86_floats ge_x86_floats_of(ge_x86_ints x) {
    return (float)x;
}

/* Rounds to the nearest integer, ties to even; NaN gives 0. |x| < 2^22. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_nearest_ints(ge_x86_floats x) {
    return x == x ? ge_rounded_float(x) : 0;
}

static inline GE_X86_INLINE void ge_x86_store_ints(void *to, ge_x86_ints x) {
    memcpy(to, &x, sizeof x);
}

/* Stores numbers that fit int16. */
static inline GE_X86_INLINE void ge_x86_store_halves(void *to, ge_x86_ints x) {
    *(int16_t *)to = (int16_t)x;
}

/* Stores numbers that fit int8. */
static inline GE_X86_INLINE void ge_x86_store_octets(void *to, ge_x86_ints x) {
    *(int8_t *)to = (int8_t)x;
}

/* The same bits as floats. */
static inline GE_X86_INLINE ge_x86_floats ge_x86_as_floats(ge_x86_ints x) {
    return ge_float_of((uint32_t)x);
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_as_ints(ge_x86_floats x) {
    return (int32_t)ge_bits_of(x);
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_most(ge_x86_ints a, ge_x86_ints b) {
    return a > b ? a : b;
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_least(ge_x86_ints a, ge_x86_ints b) {
    return a < b ? a : b;
}

/* The low half of each product, which may wrap around. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_low_product(ge_x86_ints a, ge_x86_ints b) {
    return (int32_t)((uint32_t)a * (uint32_t)b);
}

/* sums + the products of both int16 of a with those of b. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_dot_pairs(ge_x86_ints sums, ge_x86_ints a, ge_x86_ints b) {
    const int32_t low = (int16_t)(uint16_t)a * (int16_t)(uint16_t)b, high = (a >> 16) * (b >> 16);
    return (int32_t)((uint32_t)sums + (uint32_t)low + (uint32_t)high);
}

static inline GE_X86_INLINE ge_x86_wide_law ge_x86_wide_law_of(int32_t shift, int32_t zero_point, int32_t lo,
                                                               int32_t hi) {
    const ge_x86_wide_law law = {shift, zero_point, lo, hi};
    return law;
}

/* clamp(((x * multiplier + half) >> shift) + zero_point, lo, hi) */
static inline GE_X86_INLINE ge_x86_ints ge_x86_scaled(ge_x86_ints x, ge_x86_ints multiplier,
                                                      const ge_x86_wide_law *law) {
    return ge_requantize_wide(x, multiplier, law->shift, law->zero_point, law->lo, law->hi);
}

/* Does the same for a * multiplier_a + b * multiplier_b, where a and b have 17 bits and each multiplier is the same in
 * all places. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_scaled_pair(ge_x86_ints a, ge_x86_ints b, ge_x86_ints multiplier_a,
                                                           ge_x86_ints multiplier_b, const ge_x86_wide_law *law) {
    return ge_requantize_wide_pair(a, b, multiplier_a, multiplier_b, law->shift, law->zero_point, law->lo, law->hi);
}

/* Does the same for a * b * multiplier, where a and b have 17 bits. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_scaled_product(ge_x86_ints a, ge_x86_ints b, ge_x86_ints multiplier,
                                                              const ge_x86_wide_law *law) {
    return ge_requantize_wide((int64_t)a * b, multiplier, law->shift, law->zero_point, law->lo, law->hi);
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_looked_up(const int32_t *table, ge_x86_ints at) {
    return table[at];
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_by_sign(ge_x86_ints x, ge_x86_ints a, ge_x86_ints b) {
    return x < 0 ? a : b;
}

/* The larger number; the second one where either is NaN. */
static inline GE_X86_INLINE ge_x86_floats ge_x86_larger(ge_x86_floats a, ge_x86_floats b) {
    return a > b ? a : b;
}

static inline GE_X86_INLINE ge_x86_floats ge_x86_smaller(ge_x86_floats a, ge_x86_floats b) {
    return a < b ? a : b;
}

#endif

/* Loads elements of float32, int16 or int8 as numbers; `bytes`, a constant, is the size of an element. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_elements_at(const void *from, const int32_t bytes) {
    return bytes == 4 ? ge_x86_ints_at(from) : bytes == 2 ? ge_x86_halves_at(from) : ge_x86_octets_at(from);
}

/* Stores outputs as elements. */
static inline GE_X86_INLINE void ge_x86_store_elements(void *to, ge_x86_ints x, const int32_t bytes) {
    if (bytes == 4) {
        ge_x86_store_ints(to, x);
    } else if (bytes == 2) {
        ge_x86_store_halves(to, x);
    } else {
        ge_x86_store_octets(to, x);
    }
}

/* Loads `count` elements, followed by zeros; `count` is a constant where it is the length of a vector. Nothing beyond
 * them is read. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_some_elements_at(const void *from, int32_t count, const int32_t bytes) {
    uint8_t few[64] = {0};
    if (count < GE_X86_FLOATS) {
        memcpy(few, from, count > 0 ? (size_t)count * (size_t)bytes : 0);
        from = few;
    }
    return ge_x86_elements_at(from, bytes);
}

static inline GE_X86_INLINE void ge_x86_store_some_elements(void *to, ge_x86_ints x, int32_t count,
                                                            const int32_t bytes) {
    if (count < GE_X86_FLOATS) {
        uint8_t few[64];
        ge_x86_store_elements(few, x, bytes);
        /* cppcheck-suppress uninitvar -- the line above has filled it, by intrinsics */
        memcpy(to, few, count > 0 ? (size_t)count * (size_t)bytes : 0);
    } else {
        ge_x86_store_elements(to, x, bytes);
    }
}

/* Converts sums to outputs: sums of float32 (four bytes) are clamped, and NaN stays; the law scales those of
 * integers. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_outputs(ge_x86_ints sums, ge_x86_ints multiplier,
                                                       const ge_x86_wide_law *law, const int32_t bytes) {
    if (bytes == 4) {
        const ge_x86_floats lo = ge_x86_as_floats(law->lo), hi = ge_x86_as_floats(law->hi);
        return ge_x86_as_ints(ge_x86_smaller(hi, ge_x86_larger(lo, ge_x86_as_floats(sums))));
    }
    return ge_x86_scaled(sums, multiplier, law);
}

/* Widens int8 to int16. */
static inline GE_X86_INLINE void ge_x86_widened_octets(uint8_t *to, const int8_t *from, int32_t count) {
#if GE_X86_FLOATS == 16
    for (; count >= 32; count -= 32, to += 64, from += 32) {
        const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)from);
        _mm512_storeu_si512(to, _mm512_cvtepi8_epi16(bytes));
    }
#elif GE_X86_FLOATS == 8
    for (; count >= 16; count -= 16, to += 32, from += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
        _mm256_storeu_si256((__m256i *)(void *)to, _mm256_cvtepi8_epi16(bytes));
    }
#elif GE_X86_FLOATS == 4
    for (; count >= 8; count -= 8, to += 16, from += 8) {
        const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)from);
        _mm_storeu_si128((__m128i *)(void *)to, _mm_cvtepi8_epi16(bytes));
    }
#endif
    for (; count > 0; count--, to += 2, from++) {
        const int16_t x = *from;
        memcpy(to, &x, sizeof x);
    }
}

/* Converts elements to the form in which they are multiplied: int8 to int16, others unchanged. */
static inline GE_X86_INLINE void ge_x86_hold(uint8_t *to, const void *from, int32_t count, const int32_t bytes) {
    if (bytes == 1) {
        ge_x86_widened_octets(to, (const int8_t *)from, count);
    } else {
        memcpy(to, from, (size_t)count * (size_t)bytes);
    }
}

/* Writes `count` equal elements: zeros of float32, or zero points of integers. */
static inline GE_X86_INLINE void ge_x86_padding(uint8_t *to, int32_t zero, int32_t count, const int32_t bytes) {
    const int16_t one = (int16_t)zero;
    if (bytes != 2) {
        memset(to, zero, (size_t)count * (size_t)bytes);
        return;
    }
    for (; count > 0; count--, to += 2) {
        memcpy(to, &one, sizeof one);
    }
}

/* Loads one element into all places of a vector. */
static inline GE_X86_INLINE ge_x86_ints ge_x86_element_for_all(const void *from, const int32_t bytes) {
    if (bytes == 4) {
        int32_t one;
        memcpy(&one, from, sizeof one);
        return ge_x86_ints_all(one);
    }
    return ge_x86_ints_all(bytes == 2 ? *(const int16_t *)from : *(const int8_t *)from);
}

/* The law of float32: only limits. */
static inline GE_X86_INLINE ge_x86_wide_law ge_x86_limits(float lo, float hi) {
    return ge_x86_wide_law_of(1, 0, (int32_t)ge_bits_of(lo), (int32_t)ge_bits_of(hi));
}

/* The law of outputs, and the value of padding, from the params for elements with so many bytes. */
#define GE_X86_LAW_FOR(bytes, p) GE_X86_LAW_FOR_BYTES(bytes, p)
#define GE_X86_LAW_FOR_BYTES(bytes, p) GE_X86_LAW_FOR_##bytes(p)
#define GE_X86_LAW_FOR_4(p) ge_x86_limits((p)->lo, (p)->hi)
#define GE_X86_LAW_FOR_2(p) ge_x86_wide_law_of((p)->shift, (p)->out_zero_point, (p)->lo, (p)->hi)
#define GE_X86_LAW_FOR_1(p) GE_X86_LAW_FOR_2(p)
#define GE_X86_ZERO_FOR(bytes, p) GE_X86_ZERO_FOR_BYTES(bytes, p)
#define GE_X86_ZERO_FOR_BYTES(bytes, p) GE_X86_ZERO_FOR_##bytes(p)
#define GE_X86_ZERO_FOR_4(p) 0
#define GE_X86_ZERO_FOR_2(p) ((p)->in_zero_point)
#define GE_X86_ZERO_FOR_1(p) ((p)->in_zero_point)

#endif
