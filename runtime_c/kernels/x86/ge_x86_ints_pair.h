/* Sums and products of two vectors for pair_wide_x86.c. They are macros, because the types of the params differ. */
#ifndef GE_X86_INTS_PAIR_H
#define GE_X86_INTS_PAIR_H

#include "ge_x86_ints.h"

static inline GE_X86_INLINE ge_x86_ints ge_x86_float_pair(ge_x86_ints a, ge_x86_ints b, int32_t subtract,
                                                          const ge_x86_wide_law *law) {
    const ge_x86_floats x = ge_x86_as_floats(a), y = ge_x86_as_floats(b);
    return ge_x86_outputs(ge_x86_as_ints(subtract ? x - y : x + y), a, law, 4);
}

static inline GE_X86_INLINE ge_x86_ints ge_x86_float_product(ge_x86_ints a, ge_x86_ints b, const ge_x86_wide_law *law) {
    return ge_x86_outputs(ge_x86_as_ints(ge_x86_as_floats(a) * ge_x86_as_floats(b)), a, law, 4);
}

#define GE_X86_REAL(x, zero_point) ((x) - ge_x86_ints_all(zero_point))
#define GE_X86_PAIR_ADD_F32(p, law, a, b) ge_x86_float_pair(a, b, (p)->subtract, law)
#define GE_X86_PAIR_MUL_F32(p, law, a, b) ge_x86_float_product(a, b, law)
#define GE_X86_PAIR_ADD_S16(p, law, a, b)                                                                              \
    ge_x86_scaled_pair(GE_X86_REAL(a, (p)->zero_point_a), GE_X86_REAL(b, (p)->zero_point_b),                           \
                       ge_x86_ints_all((p)->multiplier_a), ge_x86_ints_all((p)->multiplier_b), law)
#define GE_X86_PAIR_MUL_S16(p, law, a, b)                                                                              \
    ge_x86_scaled_product(GE_X86_REAL(a, (p)->zero_point_a), GE_X86_REAL(b, (p)->zero_point_b),                        \
                          ge_x86_ints_all((p)->multiplier), law)

#endif
