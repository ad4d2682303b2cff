/* The default law on registers of sums. Its constants are a row of multipliers, and one of floats, which are negative
 * where they are not exact. */
#ifndef GE_X86_LAW_H
#define GE_X86_LAW_H

#include "ge_x86_by_law.h"

#define GE_X86_WORDS_default 1
#define GE_X86_ROWS_default 1

static inline GE_X86_INLINE ge_x86_register ge_x86_default(ge_x86_register acc, const int32_t *words, const float *rows,
                                                           int32_t pitch, int32_t apart, int32_t form,
                                                           const ge_x86_law *law) {
    return form < 0 ? ge_x86_multiply(acc, ge_x86_row_at(words, apart), law)
                    : ge_x86_nearest(acc, rows, pitch, apart, 0, 0, 0, law);
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
