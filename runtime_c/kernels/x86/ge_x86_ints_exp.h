/* ge_exp_f32 (ge_float.h) on vectors: the same operations in the same order, so the bits are the same. */
#ifndef GE_X86_INTS_EXP_H
#define GE_X86_INTS_EXP_H

#include "ge_float.h"
#include "ge_x86_ints.h"

static inline GE_X86_INLINE ge_x86_floats ge_x86_exp(ge_x86_floats number) {
#if GE_X86_FLOATS == 1
    return ge_exp_f32(number);
#else
    const ge_x86_floats least = ge_x86_floats_all(-104.0f), most = ge_x86_floats_all(89.0f);
    const ge_x86_floats x = ge_x86_smaller(most, ge_x86_larger(least, number));
    const ge_x86_floats scaled = x * 1.44269504f;
    const ge_x86_ints sign = ge_x86_as_ints(scaled) & INT32_MIN;
    const ge_x86_floats half = ge_x86_as_floats(sign | ge_x86_as_ints(ge_x86_floats_all(0.5f)));
    const ge_x86_ints n = ge_x86_whole_ints(scaled + half);
    const ge_x86_floats m = ge_x86_floats_of(n);
    ge_x86_floats r = x - m * 0.693359375f;
    r = r - m * -2.12194440e-4f;
    ge_x86_floats p = ge_x86_floats_all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const ge_x86_ints low = (n - (n >> 31)) >> 1, high = n - low;
    const ge_x86_floats y = p * ge_x86_as_floats((low + 127) << 23) * ge_x86_as_floats((high + 127) << 23);
    return ge_x86_unless_nan(y, number);
#endif
}

#endif
