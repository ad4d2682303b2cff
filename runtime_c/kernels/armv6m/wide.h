/* 32-bit sums of int16 products by the MULS of ARMv6-M, and their requantization: the part of ge_thumb_wide.h that
 * depends on the core.
 *
 * MULS overwrites one operand, which is always a word loaded for this product. Sums lie in the upper registers, which
 * ADD can reach. No register is left for the address of a block, so the list that a loop reads ends where its block
 * begins.
 */
#ifndef WIDE_H
#define WIDE_H

#include "ge_armv6m.h"
#include "ge_thumb_wide_blocks.h"

/* The distance in bytes from the end of the inputs to ge_wide_four_block's x. */
#define GE_WIDE_FOUR_FROM(left, bytes) ((bytes) == 1 ? (left) : 0)

/* clang-format off */

/* Restores what GE_ARMV6M_SAVE stored at r1, and returns. */
#define GE_WIDE_RETURN \
    "adds r1, r1, #16\n" \
    "ldmia r1!, {r4-r7}\n" \
    "mov r8, r4\n" \
    "mov r9, r5\n" \
    "mov r10, r6\n" \
    "mov r11, r7\n" \
    "ldr r2, [r1]\n" \
    "subs r1, r1, #32\n" \
    "ldmia r1!, {r4-r7}\n" \
    "bx r2\n"

/* Adds the products of `w` and the six words at `at`, which advances, to the sums. */
#define GE_WIDE_SIX(at, w) \
    "ldmia " at "!, {r4-r7}\n" \
    "muls r4, " w ", r4\n" \
    "add r8, r4\n" \
    "muls r5, " w ", r5\n" \
    "add r9, r5\n" \
    "muls r6, " w ", r6\n" \
    "add r10, r6\n" \
    "muls r7, " w ", r7\n" \
    "add r11, r7\n" \
    "ldmia " at "!, {r4, r5}\n" \
    "muls r4, " w ", r4\n" \
    "add r12, r4\n" \
    "muls r5, " w ", r5\n" \
    "add lr, r5\n"

/* Stores the sums at r2, which advances. */
#define GE_WIDE_PUT \
    "mov r4, r8\n" \
    "mov r5, r9\n" \
    "mov r6, r10\n" \
    "mov r7, r11\n" \
    "stmia r2!, {r4-r7}\n" \
    "mov r4, r12\n" \
    "mov r5, lr\n" \
    "stmia r2!, {r4, r5}\n"

/* r0 words, r1 the end of a channel's weights, r2 a weight, r3 minus the bytes left. */
#define GE_WIDE_INPUT(load, bytes) \
    load " r2, [r1, r3]\n" \
    GE_WIDE_SIX("r0", "r2") \
    "adds r3, r3, #" bytes "\n"

#define GE_WIDE_PRODUCTS(load, bytes) \
    ".syntax unified\n" \
    "movs r1, r0\n" \
    "adds r1, r1, #28\n" \
    GE_ARMV6M_SAVE("r1") \
    "3:\n" \
    "ldr r2, [r0, #24]\n" \
    "cmp r2, #0\n" \
    "beq 4f\n" \
    "ldmia r2!, {r4}\n" \
    "str r2, [r0, #24]\n" \
    "mov r8, r4\n" \
    "mov r9, r4\n" \
    "mov r10, r4\n" \
    "mov r11, r4\n" \
    "mov r12, r4\n" \
    "mov lr, r4\n" \
    "b 5f\n" \
    "4:\n" \
    "ldr r2, [r0, #16]\n" \
    "ldmia r2!, {r4-r7}\n" \
    "mov r8, r4\n" \
    "mov r9, r5\n" \
    "mov r10, r6\n" \
    "mov r11, r7\n" \
    "ldmia r2!, {r4, r5}\n" \
    "mov r12, r4\n" \
    "mov lr, r5\n" \
    "5:\n" \
    "ldr r1, [r0, #4]\n" \
    "ldr r3, [r0, #12]\n" \
    "ldr r0, [r0]\n" \
    "lsrs r4, r3, #" bytes "\n" \
    "bcs 2f\n" \
    "1:\n" \
    GE_WIDE_INPUT(load, bytes) \
    "2:\n" \
    GE_WIDE_INPUT(load, bytes) \
    "bne 1b\n" \
    "ldr r2, [r0, #16]\n" \
    GE_WIDE_PUT \
    "str r2, [r0, #16]\n" \
    "ldr r2, [r0, #8]\n" \
    "adds r1, r1, r2\n" \
    "str r1, [r0, #4]\n" \
    "ldr r2, [r0, #20]\n" \
    "subs r2, r2, #1\n" \
    "str r2, [r0, #20]\n" \
    "bne 3b\n" \
    "movs r1, r0\n" \
    "adds r1, r1, #28\n" \
    GE_WIDE_RETURN

__attribute__((naked, noinline, unused)) static void ge_wide_bytes(ge_wide_block *block __attribute__((unused))) {
    __asm__ volatile(GE_WIDE_PRODUCTS("ldrsb", "1"));
}

__attribute__((naked, noinline, unused)) static void ge_wide_halves(ge_wide_block *block __attribute__((unused))) {
    __asm__ volatile(GE_WIDE_PRODUCTS("ldrsh", "2"));
}

/* r0 the plane of a strip, r1 taps and then the block, r2 words, r3 a weight. ASRS leaves the mark of the last tap in
 * the carry. */
__attribute__((naked, noinline, unused)) static void ge_wide_taps(ge_wide_taps_block *block __attribute__((unused))) {
    __asm__ volatile(
        ".syntax unified\n"
        "movs r1, r0\n"
        "adds r1, r1, #16\n"
        GE_ARMV6M_SAVE("r1")
        "movs r1, r0\n"
        "3:\n"
        "ldr r2, [r1]\n"
        "ldr r0, [r2]\n"
        "ldr r4, [r1, #8]\n"
        "mov r8, r4\n"
        "mov r9, r4\n"
        "mov r10, r4\n"
        "mov r11, r4\n"
        "mov r12, r4\n"
        "mov lr, r4\n"
        "ldr r1, [r1, #4]\n"
        "1:\n"
        "ldmia r1!, {r2, r3}\n"
        "adds r2, r2, r0\n"
        "asrs r3, r3, #1\n"
        GE_WIDE_SIX("r2", "r3")
        "bcc 1b\n"
        "ldr r3, [r1]\n"
        "ldr r2, [r3, #4]\n"
        "adds r3, r3, #8\n"
        "str r3, [r1]\n"
        GE_WIDE_PUT
        "ldr r3, [r1, #12]\n"
        "subs r3, r3, #1\n"
        "str r3, [r1, #12]\n"
        "bne 3b\n"
        "adds r1, r1, #16\n"
        GE_WIDE_RETURN);
}

/* r0 sums, r5 outs, r6 the channel's offset, r7 the rounding constant, r8, r9 lower and upper half of its multiplier,
 * r10 zero point, r11, r12 limits, lr the block. The sum is split into h * 2^16 + l before it is multiplied; nested
 * floors are exact, and no part exceeds 32 bits. */
__attribute__((naked, noinline, unused)) static void ge_wide_finish(ge_wide_outputs *block __attribute__((unused))) {
    __asm__ volatile(
        ".syntax unified\n"
        "movs r1, r0\n"
        "adds r1, r1, #36\n"
        GE_ARMV6M_SAVE("r1")
        "mov lr, r0\n"
        "ldr r1, [r0, #24]\n"
        "mov r10, r1\n"
        "ldr r1, [r0, #28]\n"
        "mov r11, r1\n"
        "ldr r1, [r0, #32]\n"
        "mov r12, r1\n"
        "movs r7, #1\n"
        "lsls r7, r7, #15\n"
        "ldr r6, [r0, #16]\n"
        "ldr r0, [r0, #4]\n"
        "3:\n"
        "mov r5, lr\n"
        "ldr r1, [r5, #12]\n"
        "ldmia r1!, {r2}\n"
        "str r1, [r5, #12]\n"
        "uxth r3, r2\n"
        "mov r8, r3\n"
        "asrs r2, r2, #16\n"
        "mov r9, r2\n"
        "ldr r5, [r5]\n"
        "1:\n"
        "ldmia r0!, {r1}\n"
        "mov r3, r8\n"
        "uxth r2, r1\n"
        "movs r4, r3\n"
        "asrs r1, r1, #16\n"
        "muls r4, r2, r4\n"
        "muls r3, r1, r3\n"
        "lsrs r4, r4, #16\n"
        "adds r3, r3, r7\n"
        "adds r3, r3, r4\n"
        "mov r4, r9\n"
        "muls r2, r4, r2\n"
        "muls r1, r4, r1\n"
        "asrs r4, r3, #16\n"
        "adds r1, r1, r4\n"
        "uxth r3, r3\n"
        "adds r2, r2, r3\n"
        "asrs r2, r2, #16\n"
        "adds r1, r1, r2\n"
        "add r1, r10\n"
        "cmp r1, r11\n"
        "bge 4f\n"
        "mov r1, r11\n"
        "4:\n"
        "cmp r1, r12\n"
        "ble 5f\n"
        "mov r1, r12\n"
        "5:\n"
        "ldmia r5!, {r4}\n"
        "strh r1, [r4, r6]\n"
        "cmp r5, lr\n"
        "bne 1b\n"
        "ldr r1, [r5, #8]\n"
        "adds r0, r0, r1\n"
        "adds r6, r6, #2\n"
        "ldr r1, [r5, #20]\n"
        "subs r1, r1, #1\n"
        "str r1, [r5, #20]\n"
        "bne 3b\n"
        "mov r1, lr\n"
        "adds r1, r1, #36\n"
        GE_WIDE_RETURN);
}

/* r0-r3 rows, r4 inputs, r5 minus the bytes left, r6 an input, r7 a weight, r8-r11 sums, r12 the block. move: advances
 * r4 by the byte that an input is longer than a weight, or is empty. */
#define GE_WIDE_FOUR(load, bytes, move) \
    ".syntax unified\n" \
    "mov r12, r0\n" \
    "movs r1, r0\n" \
    "adds r1, r1, #32\n" \
    GE_ARMV6M_SAVE_EIGHT("r1") \
    "movs r4, #0\n" \
    "mov r8, r4\n" \
    "mov r9, r4\n" \
    "mov r10, r4\n" \
    "mov r11, r4\n" \
    "ldmia r0!, {r2, r3, r4, r5}\n" \
    "movs r0, r2\n" \
    "adds r1, r0, r3\n" \
    "adds r2, r1, r3\n" \
    "adds r3, r2, r3\n" \
    "1:\n" \
    "ldrsh r6, [r4, r5]\n" \
    load " r7, [r0, r5]\n" \
    "muls r7, r6, r7\n" \
    "add r8, r7\n" \
    load " r7, [r1, r5]\n" \
    "muls r7, r6, r7\n" \
    "add r9, r7\n" \
    load " r7, [r2, r5]\n" \
    "muls r7, r6, r7\n" \
    "add r10, r7\n" \
    load " r7, [r3, r5]\n" \
    "muls r6, r7, r6\n" \
    "add r11, r6\n" \
    move \
    "adds r5, r5, #" bytes "\n" \
    "bne 1b\n" \
    "mov r0, r12\n" \
    "adds r0, r0, #16\n" \
    "mov r4, r8\n" \
    "mov r5, r9\n" \
    "mov r6, r10\n" \
    "mov r7, r11\n" \
    "stmia r0!, {r4-r7}\n" \
    "adds r0, r0, #16\n" \
    GE_ARMV6M_RETURN_EIGHT("r0")

__attribute__((naked, noinline, unused)) static void ge_wide_four_bytes(ge_wide_four_block *block __attribute__((unused))) {
    __asm__ volatile(GE_WIDE_FOUR("ldrsb", "1", "adds r4, r4, #1\n"));
}

__attribute__((naked, noinline, unused)) static void ge_wide_four_halves(ge_wide_four_block *block __attribute__((unused))) {
    __asm__ volatile(GE_WIDE_FOUR("ldrsh", "2", ""));
}

/* clang-format on */

#endif
