/* What the functions for ARMv6-M have in common: saving the registers that a caller expects back, and taking three sums
 * out of two words. STM and LDM reach only r0-r7 there. */
#ifndef GE_ARMV6M_H
#define GE_ARMV6M_H

/* clang-format off */

/* Stores r4-r11 at register `at`, which advances by 32. r4-r7 then hold r8-r11. */
#define GE_ARMV6M_SAVE_EIGHT(at) \
    "stmia " at "!, {r4-r7}\n" \
    "mov r4, r8\n" \
    "mov r5, r9\n" \
    "mov r6, r10\n" \
    "mov r7, r11\n" \
    "stmia " at "!, {r4-r7}\n"

/* Stores r4-r11 and lr at `at`, which advances by 32. */
#define GE_ARMV6M_SAVE(at) \
    GE_ARMV6M_SAVE_EIGHT(at) \
    "mov r4, lr\n" \
    "str r4, [" at "]\n"

/* Restores what GE_ARMV6M_SAVE_EIGHT stored, and returns. `at` is r0-r3 and points to the saved r8. */
#define GE_ARMV6M_RETURN_EIGHT(at) \
    "ldmia " at "!, {r4-r7}\n" \
    "mov r8, r4\n" \
    "mov r9, r5\n" \
    "mov r10, r6\n" \
    "mov r11, r7\n" \
    "subs " at ", " at ", #32\n" \
    "ldmia " at "!, {r4-r7}\n" \
    "bx lr\n"

/* Restores what GE_ARMV6M_SAVE stored, and returns. r7 points to the saved r8. */
#define GE_ARMV6M_RETURN \
    "ldmia r7!, {r0-r3}\n" \
    "mov r8, r0\n" \
    "mov r9, r1\n" \
    "mov r10, r2\n" \
    "mov r11, r3\n" \
    "ldr r0, [r7]\n" \
    "subs r7, r7, #32\n" \
    "ldmia r7, {r4-r7}\n" \
    "bx r0\n"

/* Adds the three sums in words `a` and `b`, A and B of plain.h and threes.h, to the next three sums at r0. */
#define GE_ARMV6M_ADD_THREE(a, b) \
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

/* clang-format on */

#endif
