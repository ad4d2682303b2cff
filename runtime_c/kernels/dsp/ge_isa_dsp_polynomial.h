/* Code that the kernels of Cortex-M4, M7 and M33 with three products in one multiplication share.
 *
 * With z = 2^21, a word of weights holds two channels, w0 + w1 z, and a word of inputs two pixels, x0 + x1 z. One SMLAL
 * of both adds three sums up in 64 bits: (w0 x0) + (w0 x1 + w1 x0) z + (w1 x1) z^2. With a second word x1 + x2 z there
 * are two such words U, V for two channels and three pixels, and the mixed sums come apart: the lowest field of V is w0
 * x1. Sums begin at 2^20 (the mixed ones at 2^21), so that no field borrows from the next; the bias subtracts that
 * again. This is exact where each sum of products of a channel is below 2^20, which `glowembed compile` proves. Weights take
 * two bytes each.
 *
 * 4 channels x 3 pixels: r0 weights, r1 x, r2-r9 U01 V01 U23 V23 (low, high), r10 r11 weights, r12 lr x. Cost: 9 cycles
 * for 12 products, 107 per 12 outputs. Pixels are computed in threes; where their number is not a multiple of three,
 * the last three overlap those before, and some outputs are computed twice. */
#ifndef GE_ISA_DSP_POLYNOMIAL_H
#define GE_ISA_DSP_POLYNOMIAL_H

#include <stdint.h>

#include "ge_isa_dsp_frame.h"
#include "ge_isa_dsp_law.h"

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const uint32_t *x;
    int8_t *out;
    const uint32_t *x_end;
    int32_t groups; /* groups of four channels */
    const uint32_t
        *w; /* for each group: two words for each k, then for each channel bias - 2^20 (times 2^up) and requantization
             * words */
    int32_t zero_point;
} ge_dsp_polynomial_job;

/* clang-format off */

/* Two channels: sums from U (ul, uh) and V (vl, vh) to outputs, at `at` and `at` + 1. o: a register for the address of
 * outputs; where it is not uh, r1 already holds the zero point. */
#define GE_DSP_POLYNOMIAL_STORE(law, ul, uh, vl, vh, at, o) \
    "    ubfx r10, " vl ", #0, #21\n" \
    "    ldr.w r12, [sp, #4*8]\n" \
    "    .ifc " o ", " uh "\n" \
    "    .if ge_law == 0\n" \
    "    ldr.w r1, [sp, #4*5]\n" \
    "    .endif\n" \
    "    .endif\n" \
    "    smlal " ul ", " uh ", r10, r12\n" \
    "    lsr.w r11, " uh ", #10\n" \
    "    smlal " vl ", " vh ", r11, r12\n" \
    "    ubfx r12, " ul ", #0, #21\n" \
    "    lsr.w " ul ", " ul ", #21\n" \
    "    bfi " ul ", " uh ", #11, #10\n" \
    "    .if ge_law == 0\n" \
    "    ldr.w lr, [r0, #4]\n" \
    "    ldr.w " uh ", [r0], #8\n" \
    "    .else\n" \
    "    ldr.w " uh ", [r0], #4\n" \
    "    .endif\n" \
    "    lsr.w " vl ", " vl ", #21\n" \
    "    bfi " vl ", " vh ", #11, #10\n" \
    "    lsr.w " vh ", " vh ", #10\n" \
    "    add.w r12, " uh ", r12, lsl #ge_up\n" \
    "    add.w r10, " uh ", r10, lsl #ge_up\n" \
    "    add.w " vl ", " uh ", " vl ", lsl #ge_up\n" \
    "    .if ge_law == 0\n" \
    "    smmlar r12, r12, lr, r1\n" \
    "    smmlar r10, r10, lr, r1\n" \
    "    smmlar " vl ", " vl ", lr, r1\n" \
    "    .endif\n" \
    GE_DSP_LAW_THREE(law, "r0", "r12", "r10", vl, "lr", "r1", uh) \
    "    .ifnc " o ", " uh "\n" \
    "    ldr.w " o ", [sp, #4*7]\n" \
    "    .endif\n" \
    "    .if ge_law == 0\n" \
    "    ldr.w lr, [r0, #4]\n" \
    "    ldr.w " uh ", [r0], #8\n" \
    "    .else\n" \
    "    ldr.w " uh ", [r0], #4\n" \
    "    .endif\n" \
    "    ssat r12, #8, r12\n" \
    "    ssat r10, #8, r10\n" \
    "    ssat " vl ", #8, " vl "\n" \
    "    add.w " ul ", " uh ", " ul ", lsl #ge_up\n" \
    "    add.w r11, " uh ", r11, lsl #ge_up\n" \
    "    add.w " vh ", " uh ", " vh ", lsl #ge_up\n" \
    "    .if ge_law == 0\n" \
    "    smmlar " ul ", " ul ", lr, r1\n" \
    "    smmlar r11, r11, lr, r1\n" \
    "    smmlar " vh ", " vh ", lr, r1\n" \
    "    .endif\n" \
    GE_DSP_LAW_THREE(law, "r0", ul, "r11", vh, "lr", "r1", uh) \
    "    .ifc " o ", " uh "\n" \
    "    ldr.w " o ", [sp, #4*7]\n" \
    "    .endif\n" \
    "    ssat " ul ", #8, " ul "\n" \
    "    ssat r11, #8, r11\n" \
    "    ssat " vh ", #8, " vh "\n" \
    "    strb.w r12, [" o ", #" at "]\n" \
    "    strb.w " ul ", [" o ", #" at "+1]\n" \
    "    strb.w r10, [" o ", #" at "+ge_out]\n" \
    "    strb.w r11, [" o ", #" at "+ge_out+1]\n" \
    "    strb.w " vl ", [" o ", #" at "+2*ge_out]\n" \
    "    strb.w " vh ", [" o ", #" at "+2*ge_out+1]\n" \
    GE_DSP_LAW_SELDOM(law, "r0", "r1", uh)

/* The start of a loop: r0 the job; assembler symbols ge_out, ge_up, ge_law. Like the end for the next channels, it sets
 * r1 to the inputs and r2 to the address of the outputs. */
#define GE_DSP_POLYNOMIAL_BEGIN(function, law) \
    GE_DSP_ENTER(function, law, "r1-r6") \
    "    movw r3, #0x400\n" \
    "    movt r3, #0x4000\n" \
    "    str.w r3, [sp, #4*9]\n" /* the upper half of the start values of sums */ \
    "    mvn.w r3, #0x1F0000\n" \
    "    sub.w r3, r3, #0xFF00\n" \
    "    sub.w r3, r3, #0xFF\n" \
    "    str.w r3, [sp, #4*8]\n" /* -z */

/* Sets the sums of a block to their start values. */
#define GE_DSP_POLYNOMIAL_ZERO \
    "    ldr.w r0, [sp, #4*4]\n" \
    "    ldr.w r3, [sp, #4*9]\n" \
    "    mov.w r2, #0x100000\n" \
    "    mov r5, r3\n" \
    "    mov r4, r2\n" \
    "    mov r7, r3\n" \
    "    mov r6, r2\n" \
    "    mov r9, r3\n" \
    "    mov r8, r2\n"

#define GE_DSP_POLYNOMIAL_PRODUCTS \
    "    smlal r2, r3, r10, r12\n" \
    "    smlal r4, r5, r10, lr\n" \
    "    smlal r6, r7, r11, r12\n" \
    "    smlal r8, r9, r11, lr\n"

/* After the products: the outputs of a block, then the next three pixels (2b), then the next four channels (1b). */
#define GE_DSP_POLYNOMIAL_END(law) \
    "    str.w r1, [sp, #4*10]\n" \
    GE_DSP_POLYNOMIAL_STORE(law, "r2", "r3", "r4", "r5", "0", "r3") \
    GE_DSP_POLYNOMIAL_STORE(law, "r6", "r7", "r8", "r9", "2", "r2") \
    "    addw r2, r2, #3*ge_out\n" \
    "    ldr.w r1, [sp, #4*10]\n" \
    "    ldr.w r12, [sp, #4*2]\n" \
    "    cmp.w r1, r12\n" \
    "    str.w r2, [sp, #4*7]\n" \
    "    bne.w 2b\n" \
    "    str.w r0, [sp, #4*4]\n" \
    "    ldr.w r1, [sp, #4*0]\n" \
    "    ldr.w r2, [sp, #4*1]\n" \
    "    ldr.w r3, [sp, #4*3]\n" \
    "    add.w r2, r2, #4\n" \
    "    subs.w r3, r3, #1\n" \
    "    str.w r2, [sp, #4*1]\n" \
    "    str.w r3, [sp, #4*3]\n" \
    "    bne.w 1b\n" \
    GE_DSP_LEAVE

/* clang-format on */

#define GE_DSP_POLYNOMIAL_CLOBBERED(law)                                                                               \
    "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory" GE_DSP_LAW_CHANGES(law)

#endif
