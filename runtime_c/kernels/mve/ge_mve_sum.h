/* Sums of int8 numbers with int16 multipliers and one shift (ge_requantize_pair), for the Helium kernels of Add and of
 * copies. Four elements are computed at a time in 32 bits; tail predication handles the remainder.
 *   q2 first multiplier, q3 lowest and q4 highest output
 */
#ifndef GE_MVE_SUM_H
#define GE_MVE_SUM_H

#include "ge_mve.h"

/* y = clamp((a * multiplier_a + b * multiplier_b + offset) >> shift, lo, hi) */
typedef struct {
    int32_t multiplier_a, lo, hi; /* in this order for the assembly */
    int32_t multiplier_b, offset, shift;
} ge_mve_sum;

#define GE_MVE_SUM_LIMITS                                                                                              \
    "ldr lr, [%[law], #4]\n"                                                                                           \
    "vdup.32 q3, lr\n"                                                                                                 \
    "ldr lr, [%[law], #8]\n"                                                                                           \
    "vdup.32 q4, lr\n"

/* Adds a[i] and b[i]: 9 instructions for four elements. */
static inline void ge_mve_sum_each(const ge_mve_sum *law, const int8_t *a, const int8_t *b, int8_t *out,
                                   int32_t count) {
    __asm__ volatile(GE_MVE_SUM_LIMITS "ldr lr, [%[law]]\n"
                                       "vdup.32 q2, lr\n"
                                       "wlstp.32 lr, %[count], 2f\n"
                                       "1:\n"
                                       "vldrb.s32 q0, [%[a]], #4\n"
                                       "vldrb.s32 q1, [%[b]], #4\n"
                                       "vmlas.s32 q0, q2, %[offset]\n"
                                       "vmla.s32 q0, q1, %[mb]\n"
                                       "vshl.s32 q0, %[shift]\n"
                                       "vmax.s32 q0, q0, q3\n"
                                       "vmin.s32 q0, q0, q4\n"
                                       "vstrb.32 q0, [%[out]], #4\n"
                                       "letp lr, 1b\n"
                                       "2:\n"
                     : [a] "+&l"(a), [b] "+&l"(b), [out] "+&l"(out)
                     : [count] "r"(count), [law] "r"(law), [mb] "r"(law->multiplier_b), [offset] "r"(law->offset),
                       [shift] "r"(-law->shift)
                     : "lr", "q0", "q1", "q2", "q3", "q4", "memory");
}

/* Requantizes a[i] with `multiplier` and an offset that holds everything else: 7 instructions for four elements. */
static inline void ge_mve_sum_all(const ge_mve_sum *law, const int8_t *a, int32_t multiplier, int32_t offset,
                                  int8_t *out, int32_t count) {
    __asm__ volatile(
        GE_MVE_SUM_LIMITS "vdup.32 q2, %[ma]\n"
                          "wlstp.32 lr, %[count], 2f\n"
                          "1:\n"
                          "vldrb.s32 q0, [%[a]], #4\n"
                          "vmlas.s32 q0, q2, %[offset]\n"
                          "vshl.s32 q0, %[shift]\n"
                          "vmax.s32 q0, q0, q3\n"
                          "vmin.s32 q0, q0, q4\n"
                          "vstrb.32 q0, [%[out]], #4\n"
                          "letp lr, 1b\n"
                          "2:\n"
        : [a] "+&l"(a), [out] "+&l"(out)
        : [count] "r"(count), [law] "r"(law), [ma] "r"(multiplier), [offset] "r"(offset), [shift] "r"(-law->shift)
        : "lr", "q0", "q2", "q3", "q4", "memory");
}

#endif
