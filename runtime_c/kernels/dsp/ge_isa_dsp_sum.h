/* Sums of int8 numbers with multipliers of any size and one shift (ge_requantize_pair) for the kernels of Add and of
 * copies on Cortex-M4, M7 and M33.
 *
 * MLA takes multipliers of more than 16 bits; SMLAD, which does not, saves a cycle where both operands change
 * (add_s8_dsp). Loads are grouped, so all except the first take one cycle; the shift is part of SSAT where it is a
 * constant. An iteration is eight elements, and the last ones are computed one by one. Cost: 6.9 cycles per element,
 * 4.6 where one operand is the same for all. */
#ifndef GE_ISA_DSP_SUM_H
#define GE_ISA_DSP_SUM_H

#include "ge_isa_dsp.h"

/* The shift is a constant, or in a register. */
#define GE_DSP_SUM_NARROW(y) "    ssat %[" y "], #8, %[" y "], asr %[shift]\n"
#define GE_DSP_SUM_SHIFT_NARROW(y)                                                                                     \
    "    asr.w %[" y "], %[" y "], %[shift]\n"                                                                         \
    "    ssat %[" y "], #8, %[" y "]\n"

/* Expands FOUR twice for each eight elements of %[n], then ONE for each remaining element. */
#define GE_DSP_SUM_LOOP(FOUR, ONE)                                                                                     \
    "    b 2f\n"                                                                                                       \
    "    .balign 4\n"                                                                                                  \
    "1:\n" FOUR FOUR "2:\n"                                                                                            \
    "    subs %[n], %[n], #8\n"                                                                                        \
    "    bge 1b\n"                                                                                                     \
    "    adds %[n], %[n], #8\n"                                                                                        \
    "    beq 4f\n"                                                                                                     \
    "3:\n" ONE "    subs %[n], %[n], #1\n"                                                                             \
    "    bne 3b\n"                                                                                                     \
    "4:\n"

#define GE_DSP_SUM_EACH_ONE                                                                                            \
    "    ldrsb %[a0], [%[x]], #1\n"                                                                                    \
    "    ldrsb %[b0], [%[y]], #1\n"                                                                                    \
    "    mla %[a0], %[a0], %[ma], %[c]\n"                                                                              \
    "    mla %[a0], %[b0], %[mb], %[a0]\n" GE_DSP_SUM_NARROW("a0") "    strb %[a0], [%[o]], #1\n"

#define GE_DSP_SUM_EACH_TWO                                                                                            \
    "    ldrsb %[a0], [%[x]], #1\n"                                                                                    \
    "    ldrsb %[b0], [%[y]], #1\n"                                                                                    \
    "    ldrsb %[a1], [%[x]], #1\n"                                                                                    \
    "    ldrsb %[b1], [%[y]], #1\n"                                                                                    \
    "    mla %[a0], %[a0], %[ma], %[c]\n"                                                                              \
    "    mla %[a1], %[a1], %[ma], %[c]\n"                                                                              \
    "    mla %[a0], %[b0], %[mb], %[a0]\n"                                                                             \
    "    mla %[a1], %[b1], %[mb], %[a1]\n" GE_DSP_SUM_NARROW("a0")                                                     \
        GE_DSP_SUM_NARROW("a1") "    strb.w %[a1], [%[o], #1]\n"                                                       \
                                "    strb %[a0], [%[o]], #2\n"

/* o[i] = ssat8((x[i] * ma + y[i] * mb + c) >> SHIFT) for n elements; n >= 0, and SHIFT is a constant. All arguments
 * except the last four are variables that change; n is an int32_t. */
#define GE_DSP_SUM_EACH(x_, y_, o_, n_, ma_, mb_, c_, SHIFT)                                                           \
    do {                                                                                                               \
        int32_t a0_, b0_, a1_, b1_;                                                                                    \
        __asm__ volatile(                                                                                              \
            GE_DSP_SUM_LOOP(GE_DSP_SUM_EACH_TWO GE_DSP_SUM_EACH_TWO, GE_DSP_SUM_EACH_ONE)                              \
            : [x] "+&r"(x_), [y] "+&r"(y_), [o] "+&r"(o_), [n] "+&r"(n_), [a0] "=&r"(a0_), [b0] "=&r"(b0_),            \
              [a1] "=&r"(a1_), [b1] "=&r"(b1_)                                                                         \
            : [ma] "r"((int32_t)(ma_)), [mb] "r"((int32_t)(mb_)), [c] "r"((int32_t)(c_)), [shift] "i"(SHIFT)           \
            : "cc", "memory");                                                                                         \
    } while (0)

#define GE_DSP_SUM_ALL_ONE(NARROW)                                                                                     \
    "    ldrsb %[a], [%[x]], #1\n"                                                                                     \
    "    mla %[a], %[a], %[m], %[c]\n" NARROW("a") "    strb %[a], [%[o]], #1\n"

#define GE_DSP_SUM_ALL_FOUR(NARROW)                                                                                    \
    "    ldrsb.w %[b], [%[x], #1]\n"                                                                                   \
    "    ldrsb.w %[d], [%[x], #2]\n"                                                                                   \
    "    ldrsb.w %[e], [%[x], #3]\n"                                                                                   \
    "    ldrsb %[a], [%[x]], #4\n"                                                                                     \
    "    mla %[a], %[a], %[m], %[c]\n"                                                                                 \
    "    mla %[b], %[b], %[m], %[c]\n"                                                                                 \
    "    mla %[d], %[d], %[m], %[c]\n"                                                                                 \
    "    mla %[e], %[e], %[m], %[c]\n" NARROW("a") NARROW("b") NARROW("d") NARROW("e") "    strb.w %[b], [%[o], #1]\n" \
                                                                                       "    strb.w %[d], [%[o], #2]\n" \
                                                                                       "    strb.w %[e], [%[o], #3]\n" \
                                                                                       "    strb %[a], [%[o]], #4\n"

/* o[i] = ssat8((x[i] * m + c) >> shift) for n elements, in the same way; NARROW selects the kind of shift. */
#define GE_DSP_SUM_ALL(x_, o_, n_, m_, c_, NARROW, KIND, SHIFT)                                                        \
    do {                                                                                                               \
        int32_t a_, b_, d_, e_;                                                                                        \
        __asm__ volatile(                                                                                              \
            GE_DSP_SUM_LOOP(GE_DSP_SUM_ALL_FOUR(NARROW), GE_DSP_SUM_ALL_ONE(NARROW))                                   \
            : [x] "+&r"(x_), [o] "+&r"(o_), [n] "+&r"(n_), [a] "=&r"(a_), [b] "=&r"(b_), [d] "=&r"(d_), [e] "=&r"(e_)  \
            : [m] "r"((int32_t)(m_)), [c] "r"((int32_t)(c_)), [shift] KIND(SHIFT)                                      \
            : "cc", "memory");                                                                                         \
    } while (0)

#endif
