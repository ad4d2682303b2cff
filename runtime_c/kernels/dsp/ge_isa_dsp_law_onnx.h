/* The law of ONNX on Cortex-M4, M7 and M33 (ge_isa_dsp_law.h): 31-bit multipliers, one rounding, halves to even.
 *
 * The product of twice the accumulator x has 64 bits; the half of the shift and the zero point are in its upper word.
 * The error of the multiplier is below 2^23 in the product: only where the lower word is less than that from a carry,
 * which adding 2^23 to it shows, can the error change the upper word or the number be a half. One in 256 numbers goes
 * to the code of SELDOM: with d = |accumulator|, its lowest bit cleared, the quotients of (product - d - 1) and
 * (product + d) differ where the number may be a half; then the even one of them is the result. Words: multiplier,
 * (zero point << right) + half, right + 256 * zero point; right = shift - 31, 1..23. */
#ifndef GE_ISA_DSP_LAW_ONNX_H
#define GE_ISA_DSP_LAW_ONNX_H

#define GE_DSP_LAW_LOAD_1(w, m, c, t) ""

#define GE_DSP_LAW_FIRST_1(w, x, m, c, t)                                                                              \
    "    ldr.w " m ", [" w "]\n"                                                                                       \
    "    ldr.w " t ", [" w ", #4]\n"                                                                                   \
    "    mov.w " c ", #0x800000\n"                                                                                     \
    "    smlal " c ", " t ", " x ", " m "\n"                                                                           \
    "    cmp.w " c ", #0x1000000\n"                                                                                    \
    "    itt lo\n"                                                                                                     \
    "    strlo.w " x ", [sp, #-4]!\n"                                                                                  \
    "    bllo 98f\n"                                                                                                   \
    "    mov " x ", " t "\n"

#define GE_DSP_LAW_SHIFT_1(w, m, t)                                                                                    \
    "    ldr.w " m ", [" w ", #8]\n"                                                                                   \
    "    add.w " w ", " w ", #12\n"

#define GE_DSP_LAW_LAST_1(x, m) "    asr.w " x ", " x ", " m "\n"

/* Expects x at sp. Returns the result times 2^right in t; r4 is saved and used. */
#define GE_DSP_LAW_SELDOM_1(w, c, t)                                                                                   \
    "    b.w 99f\n"                                                                                                    \
    "98:\n"                                                                                                            \
    "    push.w {r4, lr}\n"                                                                                            \
    "    ldr.w r4, [sp, #8]\n"                                                                                         \
    "    cmp.w r4, #0\n"                                                                                               \
    "    it mi\n"                                                                                                      \
    "    rsbmi r4, r4, #0\n"                                                                                           \
    "    lsr.w r4, r4, #1\n"                                                                                           \
    "    bic r4, r4, #1\n"                                                                                             \
    "    subs.w " c ", " c ", #0x800000\n"                                                                             \
    "    sbc " t ", " t ", #0\n"                                                                                       \
    "    cmn.w " c ", r4\n"                                                                                            \
    "    adc lr, " t ", #0\n"                                                                                          \
    "    cmp.w r4, " c "\n"                                                                                            \
    "    it hs\n"                                                                                                      \
    "    subhs " t ", " t ", #1\n"                                                                                     \
    "    ldr.w " c ", [" w ", #8]\n"                                                                                   \
    "    asr.w lr, lr, " c "\n"                                                                                        \
    "    asr.w " t ", " t ", " c "\n"                                                                                  \
    "    eor.w r4, " t ", " c ", lsr #8\n"                                                                             \
    "    sub.w lr, lr, " t "\n"                                                                                        \
    "    and.w r4, r4, lr\n"                                                                                           \
    "    add.w " t ", " t ", r4\n"                                                                                     \
    "    lsl.w " t ", " t ", " c "\n"                                                                                  \
    "    pop.w {r4, lr}\n"                                                                                             \
    "    add.w sp, sp, #4\n"                                                                                           \
    "    bx lr\n"                                                                                                      \
    "99:\n"

#define GE_DSP_LAW_CHANGES_1 , "lr"
#define GE_DSP_LAW_STACK_1 "12"

#endif
