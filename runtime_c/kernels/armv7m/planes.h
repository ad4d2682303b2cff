/* Depthwise sums and outputs, five at a time, for Cortex-M3: the part of ge_planes.h that depends on the core. */
#ifndef PLANES_H
#define PLANES_H

#include "ge_params.h"
#include "ge_planes_block.h"

/* clang-format off */

/* The fifteen products of one row of the window, stride 1. */
#define GE_PLANES_ROW_1 \
    "ldrsb r12, [r3, #0]\n" \
    "mla r4, r12, r9, r4\n" \
    "ldrsb r12, [r3, #1]\n" \
    "mla r4, r12, r10, r4\n" \
    "mla r5, r12, r9, r5\n" \
    "ldrsb r12, [r3, #2]\n" \
    "mla r4, r12, r11, r4\n" \
    "mla r5, r12, r10, r5\n" \
    "mla r6, r12, r9, r6\n" \
    "ldrsb r12, [r3, #3]\n" \
    "mla r5, r12, r11, r5\n" \
    "mla r6, r12, r10, r6\n" \
    "mla r7, r12, r9, r7\n" \
    "ldrsb r12, [r3, #4]\n" \
    "mla r6, r12, r11, r6\n" \
    "mla r7, r12, r10, r7\n" \
    "mla r8, r12, r9, r8\n" \
    "ldrsb r12, [r3, #5]\n" \
    "mla r7, r12, r11, r7\n" \
    "mla r8, r12, r10, r8\n" \
    "ldrsb r12, [r3, #6]\n" \
    "mla r8, r12, r11, r8\n"

/* The fifteen products of one row of the window, stride 2. */
#define GE_PLANES_ROW_2 \
    "ldrsb r12, [r3, #0]\n" \
    "mla r4, r12, r9, r4\n" \
    "ldrsb r12, [r3, #1]\n" \
    "mla r4, r12, r10, r4\n" \
    "ldrsb r12, [r3, #2]\n" \
    "mla r4, r12, r11, r4\n" \
    "mla r5, r12, r9, r5\n" \
    "ldrsb r12, [r3, #3]\n" \
    "mla r5, r12, r10, r5\n" \
    "ldrsb r12, [r3, #4]\n" \
    "mla r5, r12, r11, r5\n" \
    "mla r6, r12, r9, r6\n" \
    "ldrsb r12, [r3, #5]\n" \
    "mla r6, r12, r10, r6\n" \
    "ldrsb r12, [r3, #6]\n" \
    "mla r6, r12, r11, r6\n" \
    "mla r7, r12, r9, r7\n" \
    "ldrsb r12, [r3, #7]\n" \
    "mla r7, r12, r10, r7\n" \
    "ldrsb r12, [r3, #8]\n" \
    "mla r7, r12, r11, r7\n" \
    "mla r8, r12, r9, r8\n" \
    "ldrsb r12, [r3, #9]\n" \
    "mla r8, r12, r10, r8\n" \
    "ldrsb r12, [r3, #10]\n" \
    "mla r8, r12, r11, r8\n"

#define GE_PLANES_OUTPUT(sum, at) \
    "mov r0, #0x80000000\n" \
    "mov r12, r11\n" \
    "smlal r0, r12, " sum ", r10\n" \
    "ssat r12, #8, r12\n" \
    "strb r12, " at "\n"

/* r0 law, r1 weights, r2 steps, r3 columns, r4-r8 sums, r9-r11 three weights, r12 a column, lr the block. */
#define GE_PLANES_FIVE(row) \
    "add r12, r0, #32\n" \
    "stm r12, {r4-r11, lr}\n" \
    "mov lr, r0\n" \
    "ldr r1, [lr]\n" \
    "ldr r3, [lr, #4]\n" \
    "ldr r0, [lr, #16]\n" \
    "1:\n" \
    "ldr r2, [lr, #8]\n" \
    "ldr r4, [r0]\n" \
    "mov r5, r4\n" \
    "mov r6, r4\n" \
    "mov r7, r4\n" \
    "mov r8, r4\n" \
    "2:\n" \
    "ldm r1!, {r9, r10, r11}\n" \
    row \
    "ldr r12, [r2], #4\n" \
    "asrs r12, r12, #1\n" /* the carry marks the last row */ \
    "add r3, r3, r12\n" \
    "bcc 2b\n" \
    "ldrd r2, r9, [lr, #20]\n" \
    "ldr r10, [r0, #4]\n" \
    "ldr r11, [lr, #28]\n" \
    "adds r0, r0, #8\n" \
    "add r12, r2, #1\n" \
    "strd r0, r12, [lr, #16]\n" \
    GE_PLANES_OUTPUT("r4", "[r2]") \
    GE_PLANES_OUTPUT("r5", "[r2, r9]") \
    GE_PLANES_OUTPUT("r6", "[r2, r9, lsl #1]") \
    GE_PLANES_OUTPUT("r8", "[r2, r9, lsl #2]") \
    "add r2, r2, r9\n" \
    GE_PLANES_OUTPUT("r7", "[r2, r9, lsl #1]") \
    "ldrd r12, r0, [lr, #12]\n" \
    "cmp r0, r12\n" \
    "bne 1b\n" \
    "add r12, lr, #32\n" \
    "ldm r12, {r4-r11, pc}\n"

__attribute__((naked, noinline, unused)) static void ge_planes_five_1(ge_planes_block *block __attribute__((unused))) {
    __asm__ volatile(GE_PLANES_FIVE(GE_PLANES_ROW_1));
}

__attribute__((naked, noinline, unused)) static void ge_planes_five_2(ge_planes_block *block __attribute__((unused))) {
    __asm__ volatile(GE_PLANES_FIVE(GE_PLANES_ROW_2));
}

/* Copies four channels at a time. r0 row, r1 to, r2 channels, r3-r5 bytes of one and three planes and a word, r6 a
 * byte, r7 the end of a plane's columns, r8 four channels of the row, r10 end of the row's channels, r11 columns, r12
 * the struct. */
__attribute__((naked, noinline)) static void ge_planes_spread(ge_planes_row *row __attribute__((unused))) {
    __asm__ volatile(
        "mov r12, r0\n"
        "add r0, r0, #20\n"
        "stm r0, {r4-r11, lr}\n"
        "ldm r12, {r0, r1, r2, r3}\n"
        "ldr r11, [r12, #16]\n"
        "add r4, r3, r3, lsl #1\n"
        "add r10, r0, r2\n"
        "1:\n"
        "add r8, r0, #4\n"
        "add r7, r1, r11\n"
        "2:\n"
        "ldr r5, [r0]\n"
        "add r0, r0, r2\n"
        "lsr r6, r5, #8\n"
        "strb r6, [r1, r3]\n"
        "lsr r6, r5, #16\n"
        "strb r6, [r1, r3, lsl #1]\n"
        "lsr r6, r5, #24\n"
        "strb r6, [r1, r4]\n"
        "strb r5, [r1], #1\n"
        "cmp r1, r7\n"
        "bne 2b\n"
        "sub r1, r1, r11\n"
        "add r1, r1, r3, lsl #2\n"
        "mov r0, r8\n"
        "cmp r0, r10\n"
        "bne 1b\n"
        "add r12, r12, #20\n"
        "ldm r12, {r4-r11, pc}\n");
}

/* clang-format on */

/* Requantization words of a channel: bias and multiplier. */
#define GE_PLANES_LAW 2

/* Inputs are stored in the planes with these bits inverted: none, because the kernel loads them signed. */
#define GE_PLANES_FLIP 0u

static inline int32_t ge_planes_base(const ge_conv2d_params *p) {
    return p->out_zero_point;
}

/* Clamps `count` outputs where an activation's limits are narrower than int8, to which SSAT has clamped. */
static inline void ge_planes_clamp(const ge_conv2d_params *p, int8_t *out, int32_t count) {
    if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
        for (int32_t i = 0; i < count; i++) {
            out[i] = (int8_t)(out[i] < p->lo ? p->lo : (out[i] > p->hi ? p->hi : out[i]));
        }
    }
}

#endif
