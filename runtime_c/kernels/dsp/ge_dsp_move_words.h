/* Copies words, for Cortex-M4, M7 and M33: 32 bytes in 18 cycles. */
#ifndef GE_DSP_MOVE_WORDS_H
#define GE_DSP_MOVE_WORDS_H

#include "ge.h"

/* Copies words in increasing order: the target may overlap the source if it lies before it. bytes: a multiple of 4. */
__attribute__((unused, noinline)) static void ge_dsp_move_words(void *to, const void *from, int32_t bytes) {
    __asm__ volatile("    subs %[n], %[n], #32\n"
                     "    blt 2f\n"
                     "    .balign 4\n"
                     "1:\n"
                     "    ldmia %[x]!, {r3, r4, r5, r6, r8, r9, r10, r12}\n"
                     "    stmia %[y]!, {r3, r4, r5, r6, r8, r9, r10, r12}\n"
                     "    subs %[n], %[n], #32\n"
                     "    bge 1b\n"
                     "2:\n"
                     "    adds %[n], %[n], #32\n"
                     "    ble 4f\n"
                     "3:\n"
                     "    ldr.w r4, [%[x]], #4\n"
                     "    subs %[n], %[n], #4\n"
                     "    str.w r4, [%[y]], #4\n"
                     "    bgt 3b\n"
                     "4:\n"
                     : [x] "+r"(from), [y] "+r"(to), [n] "+r"(bytes)
                     :
                     : "cc", "memory", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12");
}

#endif
