/* 32-bit sums of int16 products by the MLA of Cortex-M3, and their requantization with SMLAL: the part of
 * ge_thumb_wide.h that depends on the core. The lists that the loops read end where their blocks begin, because ARMv6-M
 * needs it so.
 */
#ifndef WIDE_H
#define WIDE_H

#include "ge_thumb_wide_blocks.h"

/* The distance in bytes from the end of the inputs to ge_wide_four_block's x. */
#define GE_WIDE_FOUR_FROM(left, bytes) 0

/* clang-format off */

/* Adds the products of `w` and the six words at `at`, which advances, to r2-r7. */
#define GE_WIDE_SIX(at, w) \
    "ldm " at "!, {r8-r11}\n" \
    "mla r2, r8, " w ", r2\n" \
    "mla r3, r9, " w ", r3\n" \
    "mla r4, r10, " w ", r4\n" \
    "mla r5, r11, " w ", r5\n" \
    "ldm " at "!, {r8, r9}\n" \
    "mla r6, r8, " w ", r6\n" \
    "mla r7, r9, " w ", r7\n"

/* r0 words and then the block, r1 weights, lr their end, r2-r7 sums, r12 a weight. */
#define GE_WIDE_INPUT(load, bytes) \
    load " r12, [r1], #" bytes "\n" \
    GE_WIDE_SIX("r0", "r12")

/* Each turn takes four inputs. The first turn skips those that would be too many, by a jump over the code of as many
 * inputs. */
#define GE_WIDE_PRODUCTS(load, bytes, bit) \
    "add r1, r0, #28\n" \
    "stm r1, {r4-r11, lr}\n" \
    "3:\n" \
    "ldr r1, [r0, #24]\n" \
    "cbz r1, 4f\n" \
    "ldr r2, [r1], #4\n" \
    "str r1, [r0, #24]\n" \
    "mov r3, r2\n" \
    "mov r4, r2\n" \
    "mov r5, r2\n" \
    "mov r6, r2\n" \
    "mov r7, r2\n" \
    "b 5f\n" \
    "4:\n" \
    "ldr r1, [r0, #16]\n" \
    "ldm r1, {r2-r7}\n" \
    "5:\n" \
    "ldrd lr, r8, [r0, #4]\n" \
    "ldr r9, [r0, #12]\n" \
    "add r8, r8, lr\n" \
    "str r8, [r0, #4]\n" \
    "add r1, lr, r9\n" \
    "ldr r0, [r0]\n" \
    "ubfx r9, r9, #" bit ", #2\n" \
    "add r9, r9, r9, lsl #3\n" \
    "adr.w r8, 1f\n" \
    "add r8, r8, r9, lsl #2\n" \
    "add r8, r8, #1\n" \
    "bx r8\n" \
    ".balign 4\n" \
    "1:\n" \
    GE_WIDE_INPUT(load, bytes) \
    "2:\n" \
    ".if 2b - 1b - 36\n" \
    ".error \"an input has not 36 bytes\"\n" \
    ".endif\n" \
    GE_WIDE_INPUT(load, bytes) \
    GE_WIDE_INPUT(load, bytes) \
    GE_WIDE_INPUT(load, bytes) \
    "cmp r1, lr\n" \
    "bne 1b\n" \
    "ldr r1, [r0, #16]\n" \
    "stm r1!, {r2-r7}\n" \
    "ldr r2, [r0, #20]\n" \
    "subs r2, r2, #1\n" \
    "strd r1, r2, [r0, #16]\n" \
    "bne 3b\n" \
    "adds r0, r0, #28\n" \
    "ldm r0, {r4-r11, pc}\n"

__attribute__((naked, noinline, unused)) static void ge_wide_bytes(ge_wide_block *block __attribute__((unused))) {
    __asm__ volatile(GE_WIDE_PRODUCTS("ldrsb", "1", "0"));
}

__attribute__((naked, noinline, unused)) static void ge_wide_halves(ge_wide_block *block __attribute__((unused))) {
    __asm__ volatile(GE_WIDE_PRODUCTS("ldrsh", "2", "1"));
}

/* r0 the plane of a strip, r1 taps and then the block, r12 words, lr a weight. ASRS leaves the mark of the last tap in
 * the carry. */
__attribute__((naked, noinline, unused)) static void ge_wide_taps(ge_wide_taps_block *block __attribute__((unused))) {
    __asm__ volatile(
        "add r1, r0, #16\n"
        "stm r1, {r4-r11, lr}\n"
        "mov r1, r0\n"
        "3:\n"
        "ldr r4, [r1]\n"
        "ldr r2, [r1, #8]\n"
        "ldr r0, [r4]\n"
        "ldr r1, [r1, #4]\n"
        "mov r3, r2\n"
        "mov r4, r2\n"
        "mov r5, r2\n"
        "mov r6, r2\n"
        "mov r7, r2\n"
        "1:\n"
        "ldm r1!, {r12, lr}\n"
        "add r12, r12, r0\n"
        "asrs lr, lr, #1\n"
        GE_WIDE_SIX("r12", "lr")
        "bcc 1b\n"
        "ldr r8, [r1]\n"
        "ldr r9, [r8, #4]\n"
        "add r8, r8, #8\n"
        "str r8, [r1]\n"
        "stm r9, {r2-r7}\n"
        "ldr r8, [r1, #12]\n"
        "subs r8, r8, #1\n"
        "str r8, [r1, #12]\n"
        "bne 3b\n"
        "adds r1, r1, #16\n"
        "ldm r1, {r4-r11, pc}\n");
}

/* r0 sums, r5 outs, r6 the offset of a channel, r7 its multiplier, r8 zero point, r9, r10 limits, lr the block. */
__attribute__((naked, noinline, unused)) static void ge_wide_finish(ge_wide_outputs *block __attribute__((unused))) {
    __asm__ volatile(
        "add r1, r0, #36\n"
        "stm r1, {r4-r11, lr}\n"
        "mov lr, r0\n"
        "add r1, r0, #24\n"
        "ldm r1, {r8, r9, r10}\n"
        "ldr r6, [r0, #16]\n"
        "ldr r0, [r0, #4]\n"
        "3:\n"
        "ldr r1, [lr, #12]\n"
        "ldr r7, [r1], #4\n"
        "ldr r5, [lr]\n"
        "str r1, [lr, #12]\n"
        "1:\n"
        "ldr r1, [r0], #4\n"
        "ldr r4, [r5], #4\n"
        "mov r2, #0x80000000\n"
        "mov r3, r8\n"
        "smlal r2, r3, r1, r7\n"
        "cmp r3, r9\n"
        "it lt\n"
        "movlt r3, r9\n"
        "cmp r3, r10\n"
        "it gt\n"
        "movgt r3, r10\n"
        "cmp r5, lr\n"
        "strh r3, [r4, r6]\n"
        "bne 1b\n"
        "ldr r1, [lr, #8]\n"
        "add r0, r0, r1\n"
        "ldr r1, [lr, #20]\n"
        "add r6, r6, #2\n"
        "subs r1, r1, #1\n"
        "str r1, [lr, #20]\n"
        "bne 3b\n"
        "add r0, lr, #36\n"
        "ldm r0, {r4-r11, pc}\n");
}

/* clang-format on */

#define GE_WIDE_FOUR_OF(name, weight)                                                                                  \
    __attribute__((noinline, unused)) static void name(ge_wide_four_block *block) {                                    \
        const weight *const a = (const weight *)(const void *)block->weights;                                          \
        const weight *const b = (const weight *)(const void *)(block->weights + block->pitch);                         \
        const weight *const c = (const weight *)(const void *)(block->weights + 2 * block->pitch);                     \
        const weight *const d = (const weight *)(const void *)(block->weights + 3 * block->pitch);                     \
        const int16_t *const x = (const int16_t *)(const void *)block->x;                                              \
        int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;                                                                        \
        for (int32_t i = block->left / (int32_t)sizeof(weight); i < 0; i++) {                                          \
            s0 += x[i] * a[i];                                                                                         \
            s1 += x[i] * b[i];                                                                                         \
            s2 += x[i] * c[i];                                                                                         \
            s3 += x[i] * d[i];                                                                                         \
        }                                                                                                              \
        block->sums[0] = s0;                                                                                           \
        block->sums[1] = s1;                                                                                           \
        block->sums[2] = s2;                                                                                           \
        block->sums[3] = s3;                                                                                           \
    }

GE_WIDE_FOUR_OF(ge_wide_four_bytes, int8_t)
GE_WIDE_FOUR_OF(ge_wide_four_halves, int16_t)

#endif
