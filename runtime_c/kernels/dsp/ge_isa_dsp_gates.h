/* What the recurrent kernels of Cortex-M4, M7 and M33 share: text of loops, and how a vector becomes int16.
 *
 * In an argument of a gate, the upper half-word of a register is what the law calls T: floors that follow each other are exact, so
 * that nothing is shifted down in between. ge_isa_dsp.h says how weights of two rows share a half-word. */
#ifndef GE_ISA_DSP_GATES_H
#define GE_ISA_DSP_GATES_H

#include "ge.h"
#include "ge_gates.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

/* clang-format off */

/* The operands `turns` and `unroll` (of four k each): products of r1 with r0, sums S01 r2, B01 r3, S23 r4, B23 r5. */
#define GE_DSP_GATES_PRODUCTS(turns, unroll) \
    "    mov lr, %[" turns "]\n" \
    "    .balign 4\n" \
    "3:\n" \
    "    .rept %c[" unroll "]\n" \
    "    ldr.w r6, [r1], #4\n" \
    "    ldr.w r8, [r1], #4\n" \
    "    ldr.w r9, [r0], #4\n" \
    "    ldr.w r10, [r0], #4\n" \
    "    ldr.w r11, [r0], #4\n" \
    "    ldr.w r12, [r0], #4\n" \
    "    smlad r2, r9, r6, r2\n" \
    "    smlad r4, r10, r6, r4\n" \
    "    smlad r2, r11, r8, r2\n" \
    "    smlad r4, r12, r8, r4\n" \
    "    sxtb16 r9, r9\n" \
    "    sxtb16 r10, r10\n" \
    "    sxtb16 r11, r11\n" \
    "    sxtb16 r12, r12\n" \
    "    smlad r3, r9, r6, r3\n" \
    "    smlad r5, r10, r6, r5\n" \
    "    smlad r3, r11, r8, r3\n" \
    "    smlad r5, r12, r8, r5\n" \
    "    .endr\n" \
    "    .if %c[" turns "] > 1\n" \
    "    subs.w lr, lr, #1\n" \
    "    bne.w 3b\n" \
    "    .endif\n"

/* 256 times the sums of four rows in r2 r3 r4 r5, and their multipliers in r9 r10 r11 r12. */
#define GE_DSP_GATES_SUMS \
    "    sub r2, r2, r3\n" \
    "    lsl r3, r3, #8\n" \
    "    sub r4, r4, r5\n" \
    "    lsl r5, r5, #8\n" \
    "    ldr.w r9, [r0], #4\n" \
    "    ldr.w r10, [r0], #4\n" \
    "    ldr.w r11, [r0], #4\n" \
    "    ldr.w r12, [r0], #4\n"

/* x = T(x) in the upper half of it; t: a register for the word. r12: the middle of the table; r7: bits 5 to 10 only. */
#define GE_DSP_GATES_INDEX(x, t) "    asr " t ", " x ", #6\n"
#define GE_DSP_GATES_WORD(t) "    ldr.w " t ", [r12, " t ", lsl #2]\n"
#define GE_DSP_GATES_LINE(x, t) \
    "    bfi r7, " x ", #5, #6\n" \
    "    smlabb " x ", " t ", r7, " t "\n"

/* The sigmoid from tanh, k: 2^30. */
#define GE_DSP_GATES_SIGMOID(x, k) "    add.w " x ", " k ", " x ", asr #1\n"

/* An argument in steps of 2^exponent, as int16. */
#define GE_DSP_GATES_SCALED(x) \
    "    ssat " x ", #16, " x "\n" \
    "    .if %c[exponent] > 0\n" \
    "    ssat " x ", #16, " x ", lsl %[exponent]\n" \
    "    .endif\n"

/* clang-format on */

/* A vector as int16, in `words` words; those behind it are 0. */
static inline void ge_dsp_gates_expand(const int8_t *x, int32_t count, uint32_t *to, int32_t words) {
    uint32_t *end = ge_dsp_expand_dense(x, count, to);
    while (end < to + words) {
        *end++ = 0;
    }
}

#endif
