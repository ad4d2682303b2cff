/* The law of Glow on registers of sums. Its row of floats is negative where the products do not fit 32 bits. */
#ifndef GE_X86_LAW_GLOW_H
#define GE_X86_LAW_GLOW_H

#include "ge_requantize_glow.h"
#include "ge_x86_by_law.h"

#define GE_X86_WORDS_glow 3
#define GE_X86_ROWS_glow 1

GE_X86_EACH(glow)

static inline GE_X86_INLINE ge_x86_register ge_x86_glow(ge_x86_register acc, const int32_t *words, const float *rows,
                                                        int32_t pitch, int32_t apart, int32_t form,
                                                        const ge_x86_law *law) {
    (void)rows;
    return form < 0 ? ge_x86_glow_each(acc, words, pitch, apart, law) : ge_x86_shifted(acc, words, pitch, apart, law);
}

GE_X86_OUTPUTS(glow)

#endif
