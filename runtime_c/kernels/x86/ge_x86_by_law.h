/* Macros from which ge_x86_law.h and the headers of other laws (ge_x86_law_<law>.h) make the functions that requantize
 * all registers of sums.
 *
 * A law defines ge_x86_<law>, which computes a register of outputs, and GE_X86_WORDS_<law> and GE_X86_ROWS_<law>, the
 * numbers of words and floats for a channel. These lie in blocks of 16 channels, or of 64 for lanes: one row of the
 * block for each word, and one for each float. */
#ifndef GE_X86_BY_LAW_H
#define GE_X86_BY_LAW_H

#include "ge_x86_portable.h"

/* A name that contains the law given as the value of a macro: GE_X86_BY(FC_S8_X86_LAW, _sums). */
#define GE_X86_BY(law, behind) GE_X86_BY_LAW(law, behind)
#define GE_X86_BY_LAW(law, behind) GE_X86_LEVEL(ge, _##law##behind)

/* A name that contains two numbers, where the name itself, that of a kernel's function, is a macro. */
#define GE_X86_SIZED(name, a, b) GE_X86_SIZED_NAME(name, a, b)
#define GE_X86_SIZED_NAME(name, a, b) name##_##a##_##b

/* Numbers of words and floats of a channel. */
#define GE_X86_WORDS(law) GE_X86_WORDS_OF(law)
#define GE_X86_WORDS_OF(law) GE_X86_WORDS_##law
#define GE_X86_ROWS(law) GE_X86_ROWS_OF(law)
#define GE_X86_ROWS_OF(law) GE_X86_ROWS_##law

#if GE_X86_FLOATS < 16

/* Only called for registers of sixteen sums. */
static inline GE_X86_INLINE ge_x86_register ge_x86_negated(ge_x86_register x) {
    return x;
}

#endif

#if !GE_X86_SHORTS

/* Outputs of a layer that adds to them, in 32 bits; levels with shorts define other functions as well. */
static inline GE_X86_INLINE ge_x86_register ge_x86_multiply_long(ge_x86_register acc, ge_x86_register m,
                                                                 const ge_x86_law *law) {
    return ge_x86_multiply(acc, m, law);
}

/* Stores the outputs of a law as ge_x86_store1 and ge_x86_store4 do; at levels with shorts those two store other
 * numbers. */
static inline GE_X86_INLINE void ge_x86_store_shorts1(int8_t *to, ge_x86_sums y, int32_t count, const ge_x86_law *law) {
    ge_x86_store1(to, y, count, law);
}

static inline GE_X86_INLINE void ge_x86_store_shorts4(int8_t *const to[4], const ge_x86_sums y[4], int32_t pieces,
                                                      const ge_x86_law *law) {
    ge_x86_store4(to, y, pieces, law);
}

#endif

/* Fills a block of 16 channels that all have these numbers of four bytes. */
static inline GE_X86_INLINE void ge_x86_spread(void *to, const void *numbers, int32_t count) {
    for (int32_t i = 0; i < 16 * count; i++) {
        memcpy((char *)to + 4 * i, (const char *)numbers + i / 16 * 4, 4);
    }
}

/* Requantizes 16 sums, and the lanes of unit number `unit` of a group, without clamping; form: ge_x86_form of the
 * block. */
#define GE_X86_OUTPUTS(law)                                                                                            \
    static inline GE_X86_INLINE ge_x86_sums GE_X86_BY_LAW(law, _sums)(                                                 \
        ge_x86_sums sums, const int32_t *words, const float *rows, int32_t form, const ge_x86_law *to) {               \
        GE_X86_UNROLL                                                                                                  \
        for (int32_t i = 0; i < 16 / GE_X86_FLOATS; i++) {                                                             \
            const int32_t at = i * GE_X86_FLOATS;                                                                      \
            const ge_x86_register acc = ge_x86_register_of(sums, i);                                                   \
            const ge_x86_register y = GE_X86_BY_LAW(law, )(acc, words + at, rows + at, 16, 4, form, to);               \
            sums = ge_x86_with_register(sums, i, y);                                                                   \
        }                                                                                                              \
        return sums;                                                                                                   \
    }                                                                                                                  \
    static inline GE_X86_INLINE ge_x86_lanes GE_X86_BY_LAW(law, _lanes)(ge_x86_lanes lanes, const int32_t *words,      \
                                                                        const float *rows, int32_t unit, int32_t form, \
                                                                        const ge_x86_law *to) {                        \
        GE_X86_UNROLL                                                                                                  \
        for (int32_t i = 0; i < GE_X86_LANES_REGISTERS; i++) {                                                         \
            const int32_t at = ge_x86_lanes_place(unit, i);                                                            \
            const ge_x86_register acc = ge_x86_lanes_register(lanes, i);                                               \
            const ge_x86_register y = GE_X86_BY_LAW(law, )(acc, words + at, rows + at, 64, GE_X86_APART, form, to);    \
            lanes = ge_x86_lanes_with(lanes, i, y);                                                                    \
        }                                                                                                              \
        return lanes;                                                                                                  \
    }

/* Computes a register of outputs one after the other by ge_requantize_<law>, as ge_x86_<law>_each. */
#define GE_X86_EACH(law)                                                                                               \
    static GE_NOINLINE GE_X86_FN void GE_X86_BY_LAW(law, _integers)(int32_t *sums, const int32_t *words,               \
                                                                    int32_t pitch, int32_t apart, int32_t zero) {      \
        for (int32_t i = 0; i < GE_X86_FLOATS; i++) {                                                                  \
            int32_t own[GE_X86_WORDS_##law];                                                                           \
            for (int32_t k = 0; k < GE_X86_WORDS_##law; k++) {                                                         \
                own[k] = words[k * pitch + i / 4 * apart + i % 4];                                                     \
            }                                                                                                          \
            sums[i] = ge_requantize_##law(sums[i], own, 0, 0, zero, INT8_MIN, INT8_MAX);                               \
        }                                                                                                              \
    }                                                                                                                  \
    static inline GE_X86_INLINE ge_x86_register GE_X86_BY_LAW(law, _each)(                                             \
        ge_x86_register acc, const int32_t *words, int32_t pitch, int32_t apart, const ge_x86_law *to) {               \
        int32_t sums[GE_X86_FLOATS];                                                                                   \
        memcpy(sums, &acc, sizeof sums);                                                                               \
        GE_X86_BY_LAW(law, _integers)(sums, words, pitch, apart, ge_x86_zero_point(to));                               \
        return ge_x86_row_at(sums, 4);                                                                                 \
    }

#endif
