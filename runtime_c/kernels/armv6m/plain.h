/* Products with plain weights by the MULS of ARMv6-M: the part of ge_plain.h that depends on the core.
 *
 * Three pixels x0, x1, x2 make two words of each input: A = x0 + x2 * 2^21 and B = x1 + x2 * 2^10, modulo 2^32. The
 * sums of w * A and w * B hold all three sums S0, S1 and S2. They start with an excess that keeps S0 and S1 in
 * 0..2^21-1 and S2 in 0..2^22-1, so nothing carries: 3 MACs take 2 MULS.
 */
#ifndef PLAIN_H
#define PLAIN_H

#include <stdint.h>

/* Multiplies the inputs of three pixels with the weights of channels, two at a time. `weights` and `sums` advance. */
typedef struct {
    const uint32_t *x;     /* 0: A and B of each input */
    const int8_t *weights; /* 4: past the weights of the first channel */
    int32_t pitch;         /* 8: bytes from channel to channel; 0: both channels are the same */
    int32_t left;          /* 12: minus the number of inputs */
    int32_t *sums;         /* 16: three for each channel; the products and GE_PLAIN_EXCESS are added to them */
    int32_t pairs;         /* 20: counts down to 0 */
    uint32_t saved[9];     /* 24: r4-r11, lr, kept here so that the compiler's figure for the stack is right */
} ge_plain_block;

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

/* Adds the sums in words `a` and `b` to the next three sums at r0. */
#define GE_PLAIN_DECODE(a, b) \
    "mov r6, " a "\n" \
    "mov r3, " b "\n" \
    "lsls r2, r6, #11\n" \
    "lsrs r2, r2, #11\n" \
    "lsrs r6, r6, #21\n" \
    "lsls r5, r6, #10\n" \
    "subs r5, r3, r5\n" \
    "lsls r3, r5, #11\n" \
    "lsrs r3, r3, #11\n" \
    "lsrs r5, r5, #21\n" \
    "lsls r5, r5, #11\n" \
    "adds r4, r6, r5\n" \
    "ldr r5, [r0]\n" \
    "adds r2, r2, r5\n" \
    "ldr r5, [r0, #4]\n" \
    "adds r3, r3, r5\n" \
    "ldr r5, [r0, #8]\n" \
    "adds r4, r4, r5\n" \
    "stmia r0!, {r2, r3, r4}\n"

/* r0 words, r1 and r2 ends of the weights of two channels, r3 minus the inputs left, r4-r7 and r8-r11 sums, r12 the
 * block. */
__attribute__((naked, noinline)) static void ge_plain_pairs(ge_plain_block *block __attribute__((unused))) {
    __asm__ volatile(
        ".syntax unified\n"
        "mov r12, r0\n"
        "adds r0, r0, #24\n"
        "stmia r0!, {r4-r7}\n"
        "mov r4, r8\n"
        "mov r5, r9\n"
        "mov r6, r10\n"
        "mov r7, r11\n"
        "stmia r0!, {r4-r7}\n"
        "mov r4, lr\n"
        "str r4, [r0]\n"
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
        GE_PLAIN_DECODE("r8", "r9")
        GE_PLAIN_DECODE("r10", "r11")
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
        "ldmia r7!, {r0-r3}\n"
        "mov r8, r0\n"
        "mov r9, r1\n"
        "mov r10, r2\n"
        "mov r11, r3\n"
        "ldr r0, [r7]\n"
        "subs r7, r7, #32\n"
        "ldmia r7, {r4-r7}\n"
        "bx r0\n");
}

/* clang-format on */

#endif
