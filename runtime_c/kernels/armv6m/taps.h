/* Sums of a depthwise convolution with plain weights, [kh, kw, C], one pixel at a time, for ARMv6-M. */
#ifndef TAPS_H
#define TAPS_H

#include "ge_armv6m.h"
#include "ge_taps_block.h"

/* r0 taps, r1 weights, r2 a tap, r3, r4 two channels, r5 an input, r6 a weight, r7 sums, r8, r9 sums of two, r10 the end of
 * taps, r11 channels, r12 the block. */
__attribute__((naked, noinline)) static void ge_taps_sum(ge_taps_block *block __attribute__((unused))) {
    __asm__ volatile(".syntax unified\n"
                     "mov r12, r0\n"
                     "adds r0, r0, #20\n" GE_ARMV6M_SAVE("r0") "mov r0, r12\n"
                                                               "ldr r2, [r0, #8]\n"
                                                               "mov r10, r2\n"
                                                               "ldr r2, [r0, #12]\n"
                                                               "mov r11, r2\n"
                                                               "ldr r7, [r0, #16]\n"
                                                               "movs r3, #0\n"
                                                               "1:\n"
                                                               "adds r4, r3, #1\n"
                                                               "cmp r4, r11\n"
                                                               "bne 2f\n"
                                                               "movs r4, r3\n"
                                                               "2:\n"
                                                               "mov r0, r12\n"
                                                               "ldmia r0, {r0, r1}\n"
                                                               "movs r2, #0\n"
                                                               "mov r8, r2\n"
                                                               "mov r9, r2\n"
                                                               "3:\n"
                                                               "ldmia r0!, {r2}\n"
                                                               "ldrsb r5, [r2, r3]\n"
                                                               "ldrsb r6, [r1, r3]\n"
                                                               "muls r5, r6, r5\n"
                                                               "add r8, r5\n"
                                                               "ldrsb r5, [r2, r4]\n"
                                                               "ldrsb r6, [r1, r4]\n"
                                                               "muls r5, r6, r5\n"
                                                               "add r9, r5\n"
                                                               "add r1, r11\n"
                                                               "cmp r0, r10\n"
                                                               "bne 3b\n"
                                                               "mov r5, r8\n"
                                                               "mov r6, r9\n"
                                                               "stmia r7!, {r5, r6}\n"
                                                               "adds r3, r3, #2\n"
                                                               "cmp r3, r11\n"
                                                               "blt 1b\n"
                                                               "mov r7, r12\n"
                                                               "adds r7, r7, #36\n" GE_ARMV6M_RETURN);
}

#endif
