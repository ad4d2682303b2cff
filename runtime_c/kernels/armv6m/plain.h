/* Products with plain weights by the MULS of ARMv6-M: the part of ge_plain.h that depends on the core.
 *
 * Three pixels x0, x1, x2 make two words of each input: A = x0 + x2 * 2^21 and B = x1 + x2 * 2^10, modulo 2^32. The
 * sums of w * A and w * B hold all three sums S0, S1 and S2. They start with an excess that keeps S0 and S1 in
 * 0..2^21-1 and S2 in 0..2^22-1, so nothing carries: 3 MACs take 2 MULS.
 */
#ifndef PLAIN_H
#define PLAIN_H

#include "ge_armv6m.h"
#include "ge_plain_block.h"

/* Added to each sum of a chunk, so that the sums in a word stay positive and do not borrow from each other. */
#define GE_PLAIN_EXCESS (1 << 20)

/* clang-format off */

/* Multiplies one input of three pixels with two channels: 6 MACs. */
#define GE_PLAIN_INPUT \
    "ldmia r0!, {r4, r5}\n" \
    "ldrsb r6, [r1, r3]\n" \
    "movs r7, r6\n" \
    "muls r7, r4, r7\n" \
    "add r8, r7\n" \
    "muls r6, r5, r6\n" \
    "add r9, r6\n" \
    "ldrsb r6, [r2, r3]\n" \
    "muls r4, r6, r4\n" \
    "add r10, r4\n" \
    "muls r5, r6, r5\n" \
    "add r11, r5\n" \
    "adds r3, r3, #1\n"

/* r0 words, r1 and r2 ends of the weights of two channels, r3 minus the inputs left, r4-r7 and r8-r11 sums, r12 the
 * block. */
__attribute__((naked, noinline)) static void ge_plain_pairs(ge_plain_block *block __attribute__((unused))) {
    __asm__ volatile(
        ".syntax unified\n"
        "mov r12, r0\n"
        "adds r0, r0, #24\n"
        GE_ARMV6M_SAVE("r0")
        "3:\n"
        "mov r7, r12\n"
        "ldmia r7!, {r0, r1, r2, r3}\n"
        "adds r2, r1, r2\n"
        "movs r4, #1\n"
        "lsls r4, r4, #20\n"
        "mov r8, r4\n"
        "mov r10, r4\n"
        "lsls r5, r4, #10\n"
        "adds r4, r4, r5\n"
        "mov r9, r4\n"
        "mov r11, r4\n"
        "lsrs r4, r3, #1\n"
        "bcs 2f\n"
        "1:\n"
        GE_PLAIN_INPUT
        "2:\n"
        GE_PLAIN_INPUT
        "bne 1b\n"
        "mov r7, r12\n"
        "ldr r0, [r7, #16]\n"
        GE_ARMV6M_ADD_THREE("r8", "r9")
        GE_ARMV6M_ADD_THREE("r10", "r11")
        "str r0, [r7, #16]\n"
        "ldr r3, [r7, #8]\n"
        "adds r1, r1, r3\n"
        "adds r1, r1, r3\n"
        "str r1, [r7, #4]\n"
        "ldr r3, [r7, #20]\n"
        "subs r3, r3, #1\n"
        "str r3, [r7, #20]\n"
        "bne 3b\n"
        "adds r7, r7, #40\n"
        GE_ARMV6M_RETURN);
}

/* clang-format on */

#endif
