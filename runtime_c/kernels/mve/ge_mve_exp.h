/* Code that the Helium kernels of Softmax share: the largest input, and exponentials from the table. */
#ifndef GE_MVE_EXP_H
#define GE_MVE_EXP_H

#include "ge_mve.h"

/* Loads the exponentials of four inputs into q1; q5 holds the largest input, q0 is overwritten. */
#define GE_MVE_EXP                                                                                                     \
    "vldrb.s32 q0, [%[x]], #4\n"                                                                                       \
    "vsub.i32 q0, q5, q0\n"                                                                                            \
    "vldrw.u32 q1, [%[table], q0, uxtw #2]\n"

static inline int32_t ge_mve_max(const int8_t *x, int32_t n) {
    int32_t max = -128;
    __asm__ volatile("wlstp.8 lr, %[n], 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%[x]], #16\n"
                     "vmaxv.s8 %[max], q0\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [x] "+&r"(x), [max] "+&r"(max)
                     : [n] "r"(n)
                     : "lr", "q0", "memory");
    return max;
}

#endif
