/* Depthwise sums and outputs, five at a time, for ARMv6-M: the part of ge_planes.h that depends on the core. */
#ifndef PLANES_H
#define PLANES_H

#include "ge_armv6m.h"
#include "ge_params.h"
#include "ge_planes_block.h"

/* clang-format off */

/* The fifteen products of one row of the window, stride 1. */
#define GE_PLANES_ROW_1 \
    "ldrb r2, [r0, #0]\n" \
    "muls r2, r4, r2\n" \
    "add r8, r2\n" \
    "ldrb r2, [r0, #1]\n" \
    "movs r3, r2\n" \
    "muls r3, r5, r3\n" \
    "add r8, r3\n" \
    "muls r2, r4, r2\n" \
    "add r9, r2\n" \
    "ldrb r2, [r0, #2]\n" \
    "movs r3, r2\n" \
    "muls r3, r6, r3\n" \
    "add r8, r3\n" \
    "movs r3, r2\n" \
    "muls r3, r5, r3\n" \
    "add r9, r3\n" \
    "muls r2, r4, r2\n" \
    "add r10, r2\n" \
    "ldrb r2, [r0, #3]\n" \
    "movs r3, r2\n" \
    "muls r3, r6, r3\n" \
    "add r9, r3\n" \
    "movs r3, r2\n" \
    "muls r3, r5, r3\n" \
    "add r10, r3\n" \
    "muls r2, r4, r2\n" \
    "add r11, r2\n" \
    "ldrb r2, [r0, #4]\n" \
    "movs r3, r2\n" \
    "muls r3, r6, r3\n" \
    "add r10, r3\n" \
    "movs r3, r2\n" \
    "muls r3, r5, r3\n" \
    "add r11, r3\n" \
    "muls r2, r4, r2\n" \
    "add r12, r2\n" \
    "ldrb r2, [r0, #5]\n" \
    "movs r3, r2\n" \
    "muls r3, r6, r3\n" \
    "add r11, r3\n" \
    "muls r2, r5, r2\n" \
    "add r12, r2\n" \
    "ldrb r2, [r0, #6]\n" \
    "muls r2, r6, r2\n" \
    "add r12, r2\n"

/* The fifteen products of one row of the window, stride 2. */
#define GE_PLANES_ROW_2 \
    "ldrb r2, [r0, #0]\n" \
    "muls r2, r4, r2\n" \
    "add r8, r2\n" \
    "ldrb r2, [r0, #1]\n" \
    "muls r2, r5, r2\n" \
    "add r8, r2\n" \
    "ldrb r2, [r0, #2]\n" \
    "movs r3, r2\n" \
    "muls r3, r6, r3\n" \
    "add r8, r3\n" \
    "muls r2, r4, r2\n" \
    "add r9, r2\n" \
    "ldrb r2, [r0, #3]\n" \
    "muls r2, r5, r2\n" \
    "add r9, r2\n" \
    "ldrb r2, [r0, #4]\n" \
    "movs r3, r2\n" \
    "muls r3, r6, r3\n" \
    "add r9, r3\n" \
    "muls r2, r4, r2\n" \
    "add r10, r2\n" \
    "ldrb r2, [r0, #5]\n" \
    "muls r2, r5, r2\n" \
    "add r10, r2\n" \
    "ldrb r2, [r0, #6]\n" \
    "movs r3, r2\n" \
    "muls r3, r6, r3\n" \
    "add r10, r3\n" \
    "muls r2, r4, r2\n" \
    "add r11, r2\n" \
    "ldrb r2, [r0, #7]\n" \
    "muls r2, r5, r2\n" \
    "add r11, r2\n" \
    "ldrb r2, [r0, #8]\n" \
    "movs r3, r2\n" \
    "muls r3, r6, r3\n" \
    "add r11, r3\n" \
    "muls r2, r4, r2\n" \
    "add r12, r2\n" \
    "ldrb r2, [r0, #9]\n" \
    "muls r2, r5, r2\n" \
    "add r12, r2\n" \
    "ldrb r2, [r0, #10]\n" \
    "muls r2, r6, r2\n" \
    "add r12, r2\n"

/* Stores the output of the sum in r3 (see threes.h). A sum that saturates branches to `outside`, which returns to label
 * `outside`2. */
#define GE_PLANES_OUTPUT(outside) \
    "cmp r3, r1\n" \
    "bhi " outside "f\n" \
    "movs r4, r3\n" \
    "muls r4, r2, r4\n" \
    "adds r4, r4, r6\n" \
    "lsrs r4, r4, #9\n" \
    "muls r3, r5, r3\n" \
    "adds r4, r4, r3\n" \
    "lsrs r4, r4, #23\n" \
    outside "2:\n" \
    "add r4, r8\n" /* only the lowest byte is stored */ \
    "strb r4, [r0]\n"

/* Where a sum saturates: sets the distance of the output from the lowest one, 0 or hi - lo. */
#define GE_PLANES_OUTSIDE(outside) \
    outside ":\n" \
    "asrs r3, r3, #31\n" \
    "mov r4, r8\n" \
    "lsrs r4, r4, #8\n" \
    "bics r4, r4, r3\n" \
    "b " outside "2b\n"

#define GE_PLANES_ENTER(saved, back) \
    ".syntax unified\n" \
    "adds r0, r0, #" saved "\n" \
    GE_ARMV6M_SAVE("r0") \
    "subs r0, r0, #" back "\n" \
    "mov r7, r0\n"

/* Restores registers and returns. r7 the struct; `high`: bytes from there to the saved r8. */
#define GE_PLANES_LEAVE(high) \
    "adds r7, r7, #" high "\n" \
    GE_ARMV6M_RETURN

/* r0 columns, r1 weights, r2 a column, r3 its product, r4-r6 three weights, r7 steps, r8-r12 sums, lr the block. Then r0 out, r1
 * the sums that do not saturate, r2 Ml, r3 a sum, r4 an output, r5 Mh, r6 R, r7 from output to output, r8 limits. */
#define GE_PLANES_FIVE(row) \
    GE_PLANES_ENTER("32", "64") \
    "mov lr, r7\n" \
    "ldr r1, [r7]\n" \
    "1:\n" \
    "ldr r0, [r7, #4]\n" \
    "ldr r2, [r7, #16]\n" \
    "ldr r2, [r2]\n" \
    "mov r8, r2\n" \
    "mov r9, r2\n" \
    "mov r10, r2\n" \
    "mov r11, r2\n" \
    "mov r12, r2\n" \
    "ldr r7, [r7, #8]\n" \
    "2:\n" \
    "ldmia r1!, {r4, r5, r6}\n" \
    row \
    "ldmia r7!, {r2}\n" \
    "asrs r2, r2, #1\n" /* carry: the last row */ \
    "add r0, r2\n" \
    "bcc 2b\n" \
    "mov r7, lr\n" \
    "str r0, [r7, #4]\n" \
    "str r1, [r7]\n" \
    "ldr r0, [r7, #20]\n" \
    "ldr r1, [r7, #16]\n" \
    "ldr r2, [r7, #28]\n" \
    "ldr r7, [r7, #24]\n" \
    "mov r3, r8\n" \
    "mov r8, r2\n" \
    "adds r1, r1, #4\n" \
    "ldmia r1, {r1, r2, r5, r6}\n" \
    GE_PLANES_OUTPUT("31") \
    "adds r0, r0, r7\n" \
    "mov r3, r9\n" \
    GE_PLANES_OUTPUT("32") \
    "adds r0, r0, r7\n" \
    "mov r3, r10\n" \
    GE_PLANES_OUTPUT("33") \
    "adds r0, r0, r7\n" \
    "mov r3, r11\n" \
    GE_PLANES_OUTPUT("34") \
    "adds r0, r0, r7\n" \
    "mov r3, r12\n" \
    GE_PLANES_OUTPUT("35") \
    "mov r7, lr\n" \
    "ldr r0, [r7, #20]\n" \
    "adds r0, r0, #1\n" \
    "str r0, [r7, #20]\n" \
    "ldr r1, [r7]\n" \
    "ldr r2, [r7, #12]\n" \
    "ldr r0, [r7, #16]\n" \
    "adds r0, r0, #20\n" \
    "str r0, [r7, #16]\n" \
    "cmp r0, r2\n" \
    "beq 3f\n" \
    "b 1b\n" \
    GE_PLANES_OUTSIDE("31") \
    GE_PLANES_OUTSIDE("32") \
    GE_PLANES_OUTSIDE("33") \
    GE_PLANES_OUTSIDE("34") \
    GE_PLANES_OUTSIDE("35") \
    "3:\n" \
    GE_PLANES_LEAVE("48")

__attribute__((naked, noinline, unused)) static void ge_planes_five_1(ge_planes_block *block __attribute__((unused))) {
    __asm__ volatile(GE_PLANES_FIVE(GE_PLANES_ROW_1));
}

__attribute__((naked, noinline, unused)) static void ge_planes_five_2(ge_planes_block *block __attribute__((unused))) {
    __asm__ volatile(GE_PLANES_FIVE(GE_PLANES_ROW_2));
}

/* Copies four channels at a time. r0 row, r1 to, r2 channels, r3-r5 bytes of one, two and three planes, r6 a word, r7 a
 * byte, r8 the end of a plane's columns, r9 the next four channels of the row, r10 end of the row's channels, r11
 * columns, r12 0x80808080, lr the struct. */
__attribute__((naked, noinline)) static void ge_planes_spread(ge_planes_row *row __attribute__((unused))) {
    __asm__ volatile(
        GE_PLANES_ENTER("20", "52")
        "mov lr, r7\n"
        "ldr r0, [r7, #16]\n"
        "mov r11, r0\n"
        "movs r0, #0x80\n"
        "lsls r1, r0, #8\n"
        "orrs r0, r0, r1\n"
        "lsls r1, r0, #16\n"
        "orrs r0, r0, r1\n"
        "mov r12, r0\n"
        "ldmia r7!, {r0, r1, r2, r3}\n"
        "lsls r4, r3, #1\n"
        "adds r5, r4, r3\n"
        "adds r6, r0, r2\n"
        "mov r10, r6\n"
        "1:\n"
        "adds r6, r0, #4\n"
        "mov r9, r6\n"
        "movs r6, r1\n"
        "add r6, r11\n"
        "mov r8, r6\n"
        "2:\n"
        "ldr r6, [r0]\n"
        "mov r7, r12\n"
        "eors r6, r6, r7\n"
        "adds r0, r0, r2\n"
        "strb r6, [r1]\n"
        "lsrs r7, r6, #8\n"
        "strb r7, [r1, r3]\n"
        "lsrs r7, r6, #16\n"
        "strb r7, [r1, r4]\n"
        "lsrs r7, r6, #24\n"
        "strb r7, [r1, r5]\n"
        "adds r1, r1, #1\n"
        "cmp r1, r8\n"
        "bne 2b\n"
        "mov r6, r11\n"
        "subs r1, r1, r6\n"
        "adds r1, r1, r4\n"
        "adds r1, r1, r4\n"
        "mov r0, r9\n"
        "cmp r0, r10\n"
        "bne 1b\n"
        "mov r7, lr\n"
        GE_PLANES_LEAVE("36"));
}

/* clang-format on */

/* Requantization words of a channel: those of threes.h; the first one is negated, so that the sums begin with it. */
#define GE_PLANES_LAW 5

/* Inputs are stored in the planes with these bits inverted, x + 128, because the kernel loads them unsigned. */
#define GE_PLANES_FLIP 0x80u

static inline int32_t ge_planes_base(const ge_conv2d_params *p) {
    return (int32_t)(((uint32_t)p->lo & 0xFFu) | (uint32_t)(p->hi - p->lo) << 8);
}

/* Nothing is left to do: GE_PLANES_OUTPUT has clamped. */
static inline void ge_planes_clamp(const ge_conv2d_params *p, const int8_t *out, int32_t count) {
    (void)p;
    (void)out;
    (void)count;
}

#endif
