/* Products with plain weights by the MLA of Cortex-M3: the part of ge_plain.h that depends on the core.
 *
 * Three pixels x0, x1, x2 make two words of each input: A = x0 + x2 * 2^21 and B = x1 + x2 * 2^10, modulo 2^32. The
 * sums of w * A and w * B are S0 + S2 * 2^21 and S1 + S2 * 2^10, and |S0|, |S1| < 2^20 makes the three separable: 3
 * MACs take 2 MLA.
 */
#ifndef PLAIN_H
#define PLAIN_H

#include "ge_plain_block.h"

/* Added to each sum of a chunk: nothing, because this core extracts sums with their sign (SBFX). */
#define GE_PLAIN_EXCESS 0

/* clang-format off */

/* Multiplies one input of three pixels with two channels: 6 MACs. */
#define GE_PLAIN_INPUT \
    "ldm r0!, {r8, r9}\n" \
    "ldrsb r10, [r1, r3]\n" \
    "ldrsb r11, [r2, r3]\n" \
    "mla r4, r8, r10, r4\n" \
    "mla r5, r9, r10, r5\n" \
    "mla r6, r8, r11, r6\n" \
    "mla r7, r9, r11, r7\n" \
    "adds r3, r3, #1\n"

/* Adds the sums in words `a` and `b` to the next three sums at r0. */
#define GE_PLAIN_DECODE(a, b) \
    "sbfx r8, " a ", #0, #21\n" \
    "sub " a ", " a ", r8\n" \
    "sub " b ", " b ", " a ", asr #11\n" \
    "sbfx r9, " b ", #0, #21\n" \
    "sub " b ", " b ", r9\n" \
    "asr " a ", " a ", #21\n" \
    "add r10, " a ", " b ", asr #10\n" \
    "ldm r0, {r2, r3, r11}\n" \
    "add r8, r8, r2\n" \
    "add r9, r9, r3\n" \
    "add r10, r10, r11\n" \
    "stm r0!, {r8, r9, r10}\n"

/* r0 words, r1 and r2 ends of the weights of two channels, r3 minus the inputs left, r4-r7 sums, r8, r9 words, r10, r11
 * weights, r12 the block. */
__attribute__((naked, noinline)) static void ge_plain_pairs(ge_plain_block *block __attribute__((unused))) {
    __asm__ volatile(
        "mov r12, r0\n"
        "add r1, r0, #24\n"
        "stm r1, {r4-r11, lr}\n"
        "3:\n"
        "ldm r12, {r0, r1, r2, r3}\n"
        "add r2, r2, r1\n"
        "movs r4, #0\n"
        "movs r5, #0\n"
        "movs r6, #0\n"
        "movs r7, #0\n"
        "lsrs r8, r3, #1\n"
        "bcs 2f\n"
        "1:\n"
        GE_PLAIN_INPUT
        "2:\n"
        GE_PLAIN_INPUT
        "bne 1b\n"
        "ldr r0, [r12, #16]\n"
        GE_PLAIN_DECODE("r4", "r5")
        GE_PLAIN_DECODE("r6", "r7")
        "ldr r3, [r12, #8]\n"
        "add r1, r1, r3, lsl #1\n"
        "ldr r3, [r12, #20]\n"
        "subs r3, r3, #1\n"
        "str r1, [r12, #4]\n"
        "strd r0, r3, [r12, #16]\n"
        "bne 3b\n"
        "add r12, r12, #24\n"
        "ldm r12, {r4-r11, pc}\n");
}

/* clang-format on */

#endif
