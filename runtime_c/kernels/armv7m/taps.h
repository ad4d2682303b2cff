/* Sums of a depthwise convolution with plain weights, [kh, kw, C], one pixel at a time, for Cortex-M3. */
#ifndef TAPS_H
#define TAPS_H

#include "ge_taps_block.h"

/* r0 weights, r1 taps, r2 a tap, r3, r4 two channels, r5 channels, r6 the end of taps, r7 sums, r8-r10 weights and an
 * input, r11 and lr sums of two channels, r12 the block. */
__attribute__((naked, noinline)) static void ge_taps_sum(ge_taps_block *block __attribute__((unused))) {
    __asm__ volatile("mov r12, r0\n"
                     "add r1, r0, #20\n"
                     "stm r1, {r4-r11, lr}\n"
                     "ldrd r6, r5, [r12, #8]\n"
                     "ldr r7, [r12, #16]\n"
                     "movs r3, #0\n"
                     "1:\n"
                     "adds r4, r3, #1\n"
                     "cmp r4, r5\n"
                     "it eq\n"
                     "moveq r4, r3\n"
                     "ldrd r1, r0, [r12]\n"
                     "mov lr, #0\n"
                     "mov r11, #0\n"
                     "2:\n"
                     "ldr r2, [r1], #4\n"
                     "ldrsb r8, [r0, r3]\n"
                     "ldrsb r9, [r0, r4]\n"
                     "ldrsb r10, [r2, r3]\n"
                     "ldrsb r2, [r2, r4]\n"
                     "add r0, r0, r5\n"
                     "mla lr, r8, r10, lr\n"
                     "mla r11, r9, r2, r11\n"
                     "cmp r1, r6\n"
                     "bne 2b\n"
                     "str lr, [r7], #4\n"
                     "str r11, [r7], #4\n"
                     "adds r3, r3, #2\n"
                     "cmp r3, r5\n"
                     "blt 1b\n"
                     "add r12, r12, #20\n"
                     "ldm r12, {r4-r11, pc}\n");
}

#endif
