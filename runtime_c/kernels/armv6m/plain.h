/* Weights as they are with the MULS of ARMv6-M: what ge_plain.h needs of a core, and rows of a fully connected layer.
 *
 * Three pixels x0, x1, x2 give two words for each input: A = x0 + x2 * 2^21 and B = x1 + x2 * 2^10, modulo 2^32. Sums of w * A
 * and w * B, begun at values that keep S0, S1 in 0..2^21-1 and S2 in 0..2^22-1, hold all three: 3 MACs in 2 MULS.
 */
#ifndef PLAIN_H
#define PLAIN_H

#include <stdint.h>

/* Inputs of three pixels by pairs of channels; `weights` and `sums` move on. */
typedef struct {
    const uint32_t *x;     /* 0: A, B of each input */
    const int8_t *weights; /* 4: behind those of the first channel */
    int32_t pitch;         /* 8: from channel to channel; 0: the second is the first again */
    int32_t left;          /* 12: inputs, negative */
    int32_t *sums;         /* 16: three of each channel; these grow by GE_PLAIN_EXCESS more than the products */
    int32_t pairs;         /* 20: counts down to 0 */
    uint32_t saved[9];     /* 24: r4-r11, lr; here, so that the compiler's figures of the stack are true */
} ge_plain_block;

/* What keeps sums positive. */
#define GE_PLAIN_EXCESS (1 << 20)

/* clang-format off */

/* An input of three pixels, two channels: 6 MACs. */
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

/* Adds the sums in `a` and `b` to the next three at r0. */
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

/* r0 words, r1 and r2 ends of the weights of two channels, r3 inputs left, r4-r7, r8-r11 sums, r12 the block. */
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
