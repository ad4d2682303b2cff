/* Products of a row of inputs with four rows of plain weights, for ARMv6-M. Comments of fields begin with their
 * offset. */
#ifndef FC_H
#define FC_H

#include <stdint.h>

#include "ge_armv6m.h"

typedef struct {
    const int8_t *weights; /* 0: past the first row */
    int32_t pitch;         /* 4: bytes from row to row; 0: all four are the same row */
    const int8_t *x;       /* 8: past the inputs */
    int32_t left;          /* 12: minus the number of inputs */
    int32_t sums[4];       /* 16 */
    uint32_t saved[8];     /* 32: r4-r11, kept here so that the compiler's figure for the stack is right */
} ge_fc_block;

/* r0-r3 rows, r4 inputs, r5 minus the inputs left, r6 an input, r7 a weight, r8-r11 sums, r12 the block. */
__attribute__((naked, noinline)) static void ge_fc_four(ge_fc_block *block __attribute__((unused))) {
    __asm__ volatile(".syntax unified\n"
                     "mov r12, r0\n"
                     "adds r0, r0, #32\n" GE_ARMV6M_SAVE_EIGHT("r0") "movs r4, #0\n"
                                                                     "mov r8, r4\n"
                                                                     "mov r9, r4\n"
                                                                     "mov r10, r4\n"
                                                                     "mov r11, r4\n"
                                                                     "mov r7, r12\n"
                                                                     "ldmia r7!, {r0, r3, r4, r5}\n"
                                                                     "adds r1, r0, r3\n"
                                                                     "adds r2, r1, r3\n"
                                                                     "adds r3, r2, r3\n"
                                                                     "1:\n"
                                                                     "ldrsb r6, [r4, r5]\n"
                                                                     "ldrsb r7, [r0, r5]\n"
                                                                     "muls r7, r6, r7\n"
                                                                     "add r8, r7\n"
                                                                     "ldrsb r7, [r1, r5]\n"
                                                                     "muls r7, r6, r7\n"
                                                                     "add r9, r7\n"
                                                                     "ldrsb r7, [r2, r5]\n"
                                                                     "muls r7, r6, r7\n"
                                                                     "add r10, r7\n"
                                                                     "ldrsb r7, [r3, r5]\n"
                                                                     "muls r6, r7, r6\n"
                                                                     "add r11, r6\n"
                                                                     "adds r5, r5, #1\n"
                                                                     "bne 1b\n"
                                                                     "mov r0, r12\n"
                                                                     "adds r0, r0, #16\n"
                                                                     "mov r4, r8\n"
                                                                     "mov r5, r9\n"
                                                                     "mov r6, r10\n"
                                                                     "mov r7, r11\n"
                                                                     "stmia r0!, {r4-r7}\n"
                                                                     "adds r0, r0, #16\n" GE_ARMV6M_RETURN_EIGHT("r0"));
}

#endif
