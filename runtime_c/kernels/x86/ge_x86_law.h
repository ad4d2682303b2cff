/* The default law on registers of sums. Its constants are a row of multipliers, and one of floats, which are negative
 * in blocks of channels that have not all an exact one: -1, or, for sixteen channels that have one, its negative, which
 * registers of sixteen sums use. */
#ifndef GE_X86_LAW_H
#define GE_X86_LAW_H

#include "ge_x86_by_law.h"

#define GE_X86_WORDS_default 1
#define GE_X86_ROWS_default 1

static inline GE_X86_INLINE ge_x86_register ge_x86_default(ge_x86_register acc, const int32_t *words, const float *rows,
                                                           int32_t pitch, int32_t apart, int32_t form,
                                                           const ge_x86_law *law) {
    if (form >= 0) {
        return ge_x86_nearest(acc, rows, pitch, apart, 0, 0, 0, law);
    }
    if (GE_X86_FLOATS == 16 && rows[0] < 0.0f && rows[0] > -1.0f) {
        return ge_x86_nearest(ge_x86_negated(acc), rows, pitch, apart, 0, 0, 0, law);
    }
    return ge_x86_multiply(acc, ge_x86_row_at(words, apart), law);
}

GE_X86_OUTPUTS(default)

#define GE_X86_WORDS_long 1
#define GE_X86_ROWS_long 1

/* The same in 32 bits, by integer multipliers only. */
static inline GE_X86_INLINE ge_x86_register ge_x86_long(ge_x86_register acc, const int32_t *words, const float *rows,
                                                        int32_t pitch, int32_t apart, int32_t form,
                                                        const ge_x86_law *law) {
    (void)rows;
    (void)pitch;
    (void)form;
    return ge_x86_multiply_long(acc, ge_x86_row_at(words, apart), law);
}

GE_X86_OUTPUTS(long)

#endif
