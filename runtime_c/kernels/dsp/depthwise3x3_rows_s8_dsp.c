/* 3x3 depthwise convolution, stride 1 or 2, of int8 [H, W, C] for Cortex-M4, M7 and M33: rows are read in place,
 * without scratch.
 *
 * It computes one channel of one output row at a time. A column of the window becomes two operands: the pixels of its
 * upper two rows in one word (PKHBT), and the third. Weights have the same layout, so SMLAD computes two products.
 * Every pixel is loaded once: its column completes an output, is the middle of the next, and starts the one after it.
 * r0 r1 r2 the three rows, r3 r4 r5 (w0, w1) of the left, middle and right column, r6 w2 of left and middle, r7 of the
 * right one, r8 r9 r10 the outputs in turn, r11 r12 lr pixels, multiplier, zero point, address of the output. With
 * stride 2: r8 r9 the outputs, r10 the zero point.
 * Padding: left and right as a column of zero points; above and below, weights of 0 and a bias that compensates. Cost:
 * 18 cycles per output, 22 with stride 2; 30 per channel of a row.
 *
 * Two rows at a time (PAIRS, stride 1) share a column of four pixels: r0 the first row, r1 the output, r2 r3 r4 (w0, w1)
 * of the left, middle and right column, r5 w2 of left and middle, r6 that of the right one and the zero point of the
 * output. The upper pixels are two words, (p0, p1) and (p1, p2), and r7 is p3. The two words become the sums of the
 * outputs that the column starts, so that three pairs of registers take turns: r8 r9, r10 r11, r12 lr. Cost: 34 cycles
 * for two outputs, 26 per channel of two rows. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_depthwise_rows.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

#define DEPTHWISE3X3_ROWS_S8_DSP_STEP 8 /* channels: bytes from pixel to pixel */
#define DEPTHWISE3X3_ROWS_S8_DSP_STRIDE 1
#define DEPTHWISE3X3_ROWS_S8_DSP_LEFT 1   /* columns of padding */
#define DEPTHWISE3X3_ROWS_S8_DSP_RIGHT 1  /* the same on the right, as far as windows extend */
#define DEPTHWISE3X3_ROWS_S8_DSP_TURNS 2  /* iterations of the loop over outputs */
#define DEPTHWISE3X3_ROWS_S8_DSP_UNROLL 6 /* outputs in an iteration: a multiple of 3, with stride 2 of 2 */
#define DEPTHWISE3X3_ROWS_S8_DSP_REST 3   /* outputs after the loop; one more where RIGHT is 1 */
#define DEPTHWISE3X3_ROWS_S8_DSP_UP 0     /* 32 - shift */
#define DEPTHWISE3X3_ROWS_S8_DSP_LAW 0    /* see ge_isa_dsp_law.h */
#define DEPTHWISE3X3_ROWS_S8_DSP_ROW 64   /* bytes from row to row of the input */
#define DEPTHWISE3X3_ROWS_S8_DSP_PAIRS 0  /* 1: two rows at a time where that is possible; TURNS is 0 */

/* clang-format off */

/* Loads the pixels of one column, `at` bytes from the current position in the rows. */
#define DEPTHWISE3X3_ROWS_S8_DSP_LOAD(at)                                                                              \
    "    ldrsb.w r11, [r0, #" at "]\n"                                                                                 \
    "    ldrsb.w r12, [r1, #" at "]\n"                                                                                 \
    "    ldrsb.w lr, [r2, #" at "]\n"                                                                                  \
    "    pkhbt r11, r11, r12, lsl #16\n"

#define DEPTHWISE3X3_ROWS_S8_DSP_LEFT_OF(y, pixels, third)                                                             \
    "    smlad " y ", " pixels ", r3, " y "\n"                                                                         \
    "    smlabb " y ", " third ", r6, " y "\n"

#define DEPTHWISE3X3_ROWS_S8_DSP_MIDDLE_OF(y, pixels, third)                                                           \
    "    smlad " y ", " pixels ", r4, " y "\n"                                                                         \
    "    smlabt " y ", " third ", r6, " y "\n"

#define DEPTHWISE3X3_ROWS_S8_DSP_RIGHT_OF(y, pixels, third)                                                            \
    "    smlad " y ", " pixels ", r5, " y "\n"                                                                         \
    "    smlabb " y ", " third ", r7, " y "\n"

#define DEPTHWISE3X3_ROWS_S8_DSP_STORE(y, zero)                                                                        \
    "    .if ge_up\n"                                                                                                  \
    "    lsl.w " y ", " y ", #ge_up\n"                                                                                 \
    "    .endif\n"                                                                                                     \
    "    .if ge_law == 0\n"                                                                                            \
    "    ldr.w r11, [sp, #4*11]\n"                                                                                     \
    "    ldr.w lr, [sp, #4*3]\n"                                                                                       \
    "    .if ge_stride == 1\n"                                                                                         \
    "    ldr.w " zero ", [sp, #4*6]\n"                                                                                 \
    "    .endif\n"                                                                                                     \
    "    smmlar " y ", " y ", r11, " zero "\n"                                                                         \
    "    .endif\n"                                                                                                     \
    GE_DSP_LAW_KEPT_ONE(DEPTHWISE3X3_ROWS_S8_DSP_LAW, y, "r11", "lr", "11", "13", "14")                                \
    "    .if ge_law\n"                                                                                                 \
    "    ldr.w lr, [sp, #4*3]\n"                                                                                       \
    "    .endif\n"                                                                                                     \
    "    ssat " y ", #8, " y "\n"                                                                                      \
    "    strb.w " y ", [lr, #ge_at]\n"                                                                                 \
    "    .set ge_at, ge_at+ge_step\n"                                                                                  \
    "    .set ge_more, ge_more-1\n"

/* Stride 1: a column that completes e, is the middle of m and starts b, as far as so many outputs are still to come. */
#define DEPTHWISE3X3_ROWS_S8_DSP_ONE(e, m, b)                                                                          \
    "    .if ge_more > 2\n"                                                                                            \
    "    ldr.w " b ", [sp, #4*10]\n"                                                                                   \
    "    .endif\n"                                                                                                     \
    DEPTHWISE3X3_ROWS_S8_DSP_LOAD("ge_at+ge_base")                                                                     \
    DEPTHWISE3X3_ROWS_S8_DSP_RIGHT_OF(e, "r11", "lr")                                                                  \
    "    .if ge_more > 1\n"                                                                                            \
    DEPTHWISE3X3_ROWS_S8_DSP_MIDDLE_OF(m, "r11", "lr")                                                                 \
    "    .endif\n"                                                                                                     \
    "    .if ge_more > 2\n"                                                                                            \
    DEPTHWISE3X3_ROWS_S8_DSP_LEFT_OF(b, "r11", "lr")                                                                   \
    "    .endif\n"                                                                                                     \
    DEPTHWISE3X3_ROWS_S8_DSP_STORE(e, "r12")

/* Stride 2: the middle column of e, then the one that completes e and starts b. */
#define DEPTHWISE3X3_ROWS_S8_DSP_TWO(e, b)                                                                             \
    DEPTHWISE3X3_ROWS_S8_DSP_LOAD("2*ge_at+ge_base")                                                                   \
    DEPTHWISE3X3_ROWS_S8_DSP_MIDDLE_OF(e, "r11", "lr")                                                                 \
    "    .if ge_more > 1\n"                                                                                            \
    "    ldr.w " b ", [sp, #4*10]\n"                                                                                   \
    "    .endif\n"                                                                                                     \
    DEPTHWISE3X3_ROWS_S8_DSP_LOAD("2*ge_at+ge_base+ge_step")                                                           \
    DEPTHWISE3X3_ROWS_S8_DSP_RIGHT_OF(e, "r11", "lr")                                                                  \
    "    .if ge_more > 1\n"                                                                                            \
    DEPTHWISE3X3_ROWS_S8_DSP_LEFT_OF(b, "r11", "lr")                                                                   \
    "    .endif\n"                                                                                                     \
    DEPTHWISE3X3_ROWS_S8_DSP_STORE(e, "r10")

/* The last output, whose right column is padding. */
#define DEPTHWISE3X3_ROWS_S8_DSP_LAST(y, zero)                                                                         \
    "    ldr.w r11, [sp, #4*5]\n"                                                                                      \
    DEPTHWISE3X3_ROWS_S8_DSP_RIGHT_OF(y, "r11", "r11")                                                                 \
    DEPTHWISE3X3_ROWS_S8_DSP_STORE(y, zero)

/* Computes all channels of one output row. */
__attribute__((noinline)) static void depthwise3x3_rows_s8_dsp_row(const ge_dsp_depthwise_rows_job *job) {
    register const ge_dsp_depthwise_rows_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        "    .set ge_step, %c[step]\n"
        "    .set ge_stride, %c[stride]\n"
        "    .set ge_turns, %c[turns]\n"
        "    .set ge_unroll, %c[unroll]\n"
        "    .set ge_rest, %c[rest]\n"
        "    .set ge_left, %c[left]\n"
        "    .set ge_right, %c[right]\n"
        "    .set ge_up, %c[up]\n"
        "    .set ge_law, %c[law]\n"
        "    .set ge_base, (3-ge_stride-ge_left)*ge_step\n"
        "    .set ge_moved, ge_turns*ge_unroll*ge_stride*ge_step\n"
        GE_DSP_ENTER(depthwise3x3_rows_s8_dsp_row, DEPTHWISE3X3_ROWS_S8_DSP_LAW, "r1-r6, r8-r10")
        "    ldr.w r0, [sp, #4*0]\n"
        "    ldr.w r1, [sp, #4*1]\n"
        "    ldr.w r2, [sp, #4*2]\n"
        "    .balign 4\n"
        "1:\n" /* a channel */
        "    ldr.w r12, [sp, #4*4]\n"
        "    ldr.w r11, [sp, #4*5]\n"
        "    ldr.w r10, [sp, #4*8]\n"
        "    .if ge_law\n"
        "    ldr.w r5, [r12, #12]\n"
        "    ldr.w r3, [r12, #8]\n"
        "    str.w r3, [sp, #4*13]\n"
        "    str.w r5, [sp, #4*14]\n"
        "    .endif\n"
        "    ldr.w r9, [r12, #4]\n"
        "    ldr.w r4, [r12, #(8+8*%c[more])]\n"
        "    ldr.w r6, [r12, #(12+8*%c[more])]\n"
        "    ldrsb.w r7, [r12, #(16+8*%c[more])]\n"
        "    ldr.w r8, [r12], #(20+8*%c[more])\n"
        "    str.w r12, [sp, #4*4]\n"
        "    str.w r8, [sp, #4*10]\n"
        "    str.w r9, [sp, #4*11]\n"
        "    sxtb16 r3, r4\n"
        "    sxtb16 r4, r4, ror #8\n"
        "    sxtb16 r5, r6\n"
        "    sxtb16 r6, r6, ror #8\n"
        "    cmp.w r10, #0\n"
        "    bne.w 6f\n"
        "2:\n"
        "    .if ge_left\n"
        DEPTHWISE3X3_ROWS_S8_DSP_LEFT_OF("r8", "r11", "r11")
        "    .else\n"
        DEPTHWISE3X3_ROWS_S8_DSP_LOAD("0")
        DEPTHWISE3X3_ROWS_S8_DSP_LEFT_OF("r8", "r11", "lr")
        "    .endif\n"
        "    .if ge_stride == 1\n"
        "    ldr.w r9, [sp, #4*10]\n"
        DEPTHWISE3X3_ROWS_S8_DSP_LOAD("(1-ge_left)*ge_step")
        DEPTHWISE3X3_ROWS_S8_DSP_MIDDLE_OF("r8", "r11", "lr")
        DEPTHWISE3X3_ROWS_S8_DSP_LEFT_OF("r9", "r11", "lr")
        "    .else\n"
        "    ldr.w r10, [sp, #4*6]\n"
        "    .endif\n"
        "    .if ge_turns\n"
        "    movw r11, #ge_moved\n"
        "    add.w r11, r11, r0\n"
        "    str.w r11, [sp, #4*12]\n"
        "    .balign 4\n"
        "3:\n"
        "    .set ge_at, 0\n"
        "    .set ge_more, ge_unroll+3\n"
        "    .if ge_stride == 1\n"
        "    .rept ge_unroll/3\n"
        DEPTHWISE3X3_ROWS_S8_DSP_ONE("r8", "r9", "r10")
        DEPTHWISE3X3_ROWS_S8_DSP_ONE("r9", "r10", "r8")
        DEPTHWISE3X3_ROWS_S8_DSP_ONE("r10", "r8", "r9")
        "    .endr\n"
        "    .else\n"
        "    .rept ge_unroll/2\n"
        DEPTHWISE3X3_ROWS_S8_DSP_TWO("r8", "r9")
        DEPTHWISE3X3_ROWS_S8_DSP_TWO("r9", "r8")
        "    .endr\n"
        "    .endif\n"
        "    addw lr, lr, #ge_unroll*ge_step\n"
        "    addw r0, r0, #ge_unroll*ge_stride*ge_step\n"
        "    addw r1, r1, #ge_unroll*ge_stride*ge_step\n"
        "    addw r2, r2, #ge_unroll*ge_stride*ge_step\n"
        "    ldr.w r12, [sp, #4*12]\n"
        "    str.w lr, [sp, #4*3]\n"
        "    cmp.w r0, r12\n"
        "    bne.w 3b\n"
        "    .endif\n"
        "    .set ge_at, 0\n"
        "    .set ge_more, ge_rest+ge_right\n"
        "    .if ge_stride == 1\n"
        "    .rept ge_rest/3\n"
        DEPTHWISE3X3_ROWS_S8_DSP_ONE("r8", "r9", "r10")
        DEPTHWISE3X3_ROWS_S8_DSP_ONE("r9", "r10", "r8")
        DEPTHWISE3X3_ROWS_S8_DSP_ONE("r10", "r8", "r9")
        "    .endr\n"
        "    .set ge_odd, ge_rest-ge_rest/3*3\n"
        "    .if ge_odd > 0\n"
        DEPTHWISE3X3_ROWS_S8_DSP_ONE("r8", "r9", "r10")
        "    .endif\n"
        "    .if ge_odd > 1\n"
        DEPTHWISE3X3_ROWS_S8_DSP_ONE("r9", "r10", "r8")
        "    .endif\n"
        "    .if ge_right && ge_odd == 0\n"
        DEPTHWISE3X3_ROWS_S8_DSP_LAST("r8", "r12")
        "    .endif\n"
        "    .if ge_right && ge_odd == 1\n"
        DEPTHWISE3X3_ROWS_S8_DSP_LAST("r9", "r12")
        "    .endif\n"
        "    .if ge_right && ge_odd == 2\n"
        DEPTHWISE3X3_ROWS_S8_DSP_LAST("r10", "r12")
        "    .endif\n"
        "    .else\n"
        "    .rept ge_rest/2\n"
        DEPTHWISE3X3_ROWS_S8_DSP_TWO("r8", "r9")
        DEPTHWISE3X3_ROWS_S8_DSP_TWO("r9", "r8")
        "    .endr\n"
        "    .set ge_odd, ge_rest-ge_rest/2*2\n"
        "    .if ge_odd\n"
        DEPTHWISE3X3_ROWS_S8_DSP_TWO("r8", "r9")
        "    .endif\n"
        "    .if ge_right\n"
        DEPTHWISE3X3_ROWS_S8_DSP_LOAD("2*ge_at+ge_base")
        "    .if ge_odd\n"
        DEPTHWISE3X3_ROWS_S8_DSP_MIDDLE_OF("r9", "r11", "lr")
        DEPTHWISE3X3_ROWS_S8_DSP_LAST("r9", "r10")
        "    .else\n"
        DEPTHWISE3X3_ROWS_S8_DSP_MIDDLE_OF("r8", "r11", "lr")
        DEPTHWISE3X3_ROWS_S8_DSP_LAST("r8", "r10")
        "    .endif\n"
        "    .endif\n"
        "    .endif\n"
        "    .if ge_turns\n" /* back to the first pixel of the next channel */
        "    movw r12, #ge_moved-1\n"
        "    movw r11, #ge_moved/ge_stride-1\n"
        "    sub.w r0, r0, r12\n"
        "    sub.w r1, r1, r12\n"
        "    sub.w r2, r2, r12\n"
        "    sub.w lr, lr, r11\n"
        "    .else\n"
        "    add.w r0, r0, #1\n"
        "    add.w r1, r1, #1\n"
        "    add.w r2, r2, #1\n"
        "    add.w lr, lr, #1\n"
        "    .endif\n"
        "    ldr.w r12, [sp, #4*7]\n"
        "    str.w lr, [sp, #4*3]\n"
        "    subs.w r12, r12, #1\n"
        "    str.w r12, [sp, #4*7]\n"
        "    bne.w 1b\n"
        "    b.w 9f\n"
        "    .balign 4\n"
        "6:\n" /* a row of padding above */
        "    tst.w r10, #1\n"
        "    beq.w 7f\n"
        "    smlabb r8, r3, r11, r8\n"
        "    smlabb r8, r4, r11, r8\n"
        "    smlabb r8, r5, r11, r8\n"
        "    bfc r3, #0, #16\n"
        "    bfc r4, #0, #16\n"
        "    bfc r5, #0, #16\n"
        "7:\n" /* a row of padding below */
        "    tst.w r10, #2\n"
        "    beq.w 8f\n"
        "    smlabb r8, r6, r11, r8\n"
        "    smlatb r8, r6, r11, r8\n"
        "    smlabb r8, r7, r11, r8\n"
        "    mov.w r6, #0\n"
        "    mov.w r7, #0\n"
        "8:\n"
        "    str.w r8, [sp, #4*10]\n"
        "    b.w 2b\n"
        "9:\n"
        GE_DSP_LEAVE
        : "+r"(r0)
        : [step] "i"(DEPTHWISE3X3_ROWS_S8_DSP_STEP), [stride] "i"(DEPTHWISE3X3_ROWS_S8_DSP_STRIDE),
          [turns] "i"(DEPTHWISE3X3_ROWS_S8_DSP_TURNS), [unroll] "i"(DEPTHWISE3X3_ROWS_S8_DSP_UNROLL),
          [rest] "i"(DEPTHWISE3X3_ROWS_S8_DSP_REST), [left] "i"(DEPTHWISE3X3_ROWS_S8_DSP_LEFT),
          [right] "i"(DEPTHWISE3X3_ROWS_S8_DSP_RIGHT), [up] "i"(DEPTHWISE3X3_ROWS_S8_DSP_UP),
          [law] "i"(DEPTHWISE3X3_ROWS_S8_DSP_LAW), [more] "i"(DEPTHWISE3X3_ROWS_S8_DSP_LAW != 0)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* Loads the four pixels of a column: (p0, p1) into x, (p1, p2) into y, p3 into r7. */
#define DEPTHWISE3X3_ROWS_S8_DSP_LOAD4(x, y, at)                                                                       \
    "    ldrsb.w " x ", [r0, #" at "]\n"                                                                               \
    "    ldrsb.w " y ", [r0, #" at "+ge_down]\n"                                                                        \
    "    ldrsb.w r7, [r0, #" at "+2*ge_down]\n"                                                                         \
    "    pkhbt " x ", " x ", " y ", lsl #16\n"                                                                         \
    "    pkhbt " y ", " y ", r7, lsl #16\n"                                                                            \
    "    ldrsb.w r7, [r0, #" at "+3*ge_down]\n"

#define DEPTHWISE3X3_ROWS_S8_DSP_LEFT2(x, y)                                                                           \
    "    smuad " x ", " x ", r2\n"                                                                                     \
    "    smlatb " x ", " y ", r5, " x "\n"                                                                             \
    "    smuad " y ", " y ", r2\n"                                                                                     \
    "    smlabb " y ", r7, r5, " y "\n"

#define DEPTHWISE3X3_ROWS_S8_DSP_MIDDLE2(m, n, x, y)                                                                   \
    "    smlad " m ", " x ", r3, " m "\n"                                                                              \
    "    smlatt " m ", " y ", r5, " m "\n"                                                                             \
    "    smlad " n ", " y ", r3, " n "\n"                                                                              \
    "    smlabt " n ", r7, r5, " n "\n"

#define DEPTHWISE3X3_ROWS_S8_DSP_RIGHT2(e, f, x, y)                                                                    \
    "    smlad " e ", " x ", r4, " e "\n"                                                                              \
    "    smlatb " e ", " y ", r6, " e "\n"                                                                             \
    "    smlad " f ", " y ", r4, " f "\n"                                                                              \
    "    smlabb " f ", r7, r6, " f "\n"

#define DEPTHWISE3X3_ROWS_S8_DSP_STORE2(e, f)                                                                          \
    "    ldr.w r7, [sp, #4*6]\n"                                                                                       \
    "    add.w " e ", " e ", r7\n"                                                                                     \
    "    add.w " f ", " f ", r7\n"                                                                                     \
    "    ldr.w r7, [sp, #4*7]\n"                                                                                       \
    "    .if ge_up\n"                                                                                                  \
    "    lsl.w " e ", " e ", #ge_up\n"                                                                                 \
    "    lsl.w " f ", " f ", #ge_up\n"                                                                                 \
    "    .endif\n"                                                                                                     \
    "    smmulr " e ", " e ", r7\n"                                                                                    \
    "    smmulr " f ", " f ", r7\n"                                                                                    \
    "    sxtah " e ", " e ", r6, ror #16\n"                                                                            \
    "    sxtah " f ", " f ", r6, ror #16\n"                                                                            \
    "    ssat " e ", #8, " e "\n"                                                                                      \
    "    ssat " f ", #8, " f "\n"                                                                                      \
    "    strb.w " e ", [r1, #ge_at]\n"                                                                                 \
    "    strb.w " f ", [r1, #ge_at+ge_out]\n"                                                                          \
    "    .set ge_at, ge_at+ge_step\n"                                                                                  \
    "    .set ge_more, ge_more-1\n"

/* A column that completes (e, f), is the middle of (m, n) and starts (x, y). */
#define DEPTHWISE3X3_ROWS_S8_DSP_ONE2(e, f, m, n, x, y)                                                                \
    DEPTHWISE3X3_ROWS_S8_DSP_LOAD4(x, y, "ge_at+ge_base")                                                              \
    DEPTHWISE3X3_ROWS_S8_DSP_RIGHT2(e, f, x, y)                                                                        \
    "    .if ge_more > 1\n"                                                                                            \
    DEPTHWISE3X3_ROWS_S8_DSP_MIDDLE2(m, n, x, y)                                                                       \
    "    .endif\n"                                                                                                     \
    "    .if ge_more > 2\n"                                                                                            \
    DEPTHWISE3X3_ROWS_S8_DSP_LEFT2(x, y)                                                                               \
    "    .endif\n"                                                                                                     \
    DEPTHWISE3X3_ROWS_S8_DSP_STORE2(e, f)

/* The last outputs, whose right column is padding. */
#define DEPTHWISE3X3_ROWS_S8_DSP_LAST2(e, f)                                                                           \
    "    ldr.w r7, [sp, #4*4]\n"                                                                                       \
    DEPTHWISE3X3_ROWS_S8_DSP_RIGHT2(e, f, "r7", "r7")                                                                  \
    DEPTHWISE3X3_ROWS_S8_DSP_STORE2(e, f)

/* Computes all channels of two output rows. It has no code without PAIRS. */
__attribute__((unused, noinline)) static void depthwise3x3_rows_s8_dsp_pair(const ge_dsp_depthwise_pair_job *job) {
    register const ge_dsp_depthwise_pair_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        "    .if %c[pairs]\n"
        "    .set ge_step, %c[step]\n"
        "    .set ge_down, %c[row]\n"
        "    .set ge_out, (%c[rest]+%c[right])*%c[step]\n"
        "    .set ge_up, %c[up]\n"
        "    .set ge_base, (2-%c[left])*ge_step\n"
        GE_DSP_ENTER(depthwise3x3_rows_s8_dsp_pair, 0, "r1-r6")
        "    mov.w r0, r2\n"
        "    mov.w r7, r3\n"
        "    .balign 4\n"
        "1:\n" /* a channel */
        "    ldm.w r7!, {r2, r3, r4, r5, r8}\n"
        "    ldr.w r6, [sp, #4*5]\n"
        "    str.w r7, [sp, #4*2]\n"
        "    strd r2, r3, [sp, #4*6]\n"
        "    sxtb16 r2, r4\n"
        "    sxtb16 r3, r4, ror #8\n"
        "    sxtb16 r4, r5\n"
        "    sxtb16 r5, r5, ror #8\n"
        "    sxtb r8, r8\n"
        "    pkhbt r6, r8, r6\n"
        "    .if %c[left]\n"
        "    ldr.w r7, [sp, #4*4]\n"
        "    smuad r8, r7, r2\n"
        "    smlabb r8, r7, r5, r8\n"
        "    mov.w r9, r8\n"
        "    .else\n"
        DEPTHWISE3X3_ROWS_S8_DSP_LOAD4("r8", "r9", "0")
        DEPTHWISE3X3_ROWS_S8_DSP_LEFT2("r8", "r9")
        "    .endif\n"
        DEPTHWISE3X3_ROWS_S8_DSP_LOAD4("r10", "r11", "(1-%c[left])*ge_step")
        DEPTHWISE3X3_ROWS_S8_DSP_MIDDLE2("r8", "r9", "r10", "r11")
        DEPTHWISE3X3_ROWS_S8_DSP_LEFT2("r10", "r11")
        "    .set ge_at, 0\n"
        "    .set ge_more, %c[rest]+%c[right]\n"
        "    .rept %c[rest]/3\n"
        DEPTHWISE3X3_ROWS_S8_DSP_ONE2("r8", "r9", "r10", "r11", "r12", "lr")
        DEPTHWISE3X3_ROWS_S8_DSP_ONE2("r10", "r11", "r12", "lr", "r8", "r9")
        DEPTHWISE3X3_ROWS_S8_DSP_ONE2("r12", "lr", "r8", "r9", "r10", "r11")
        "    .endr\n"
        "    .set ge_odd, %c[rest]-%c[rest]/3*3\n"
        "    .if ge_odd > 0\n"
        DEPTHWISE3X3_ROWS_S8_DSP_ONE2("r8", "r9", "r10", "r11", "r12", "lr")
        "    .endif\n"
        "    .if ge_odd > 1\n"
        DEPTHWISE3X3_ROWS_S8_DSP_ONE2("r10", "r11", "r12", "lr", "r8", "r9")
        "    .endif\n"
        "    .if %c[right] && ge_odd == 0\n"
        DEPTHWISE3X3_ROWS_S8_DSP_LAST2("r8", "r9")
        "    .endif\n"
        "    .if %c[right] && ge_odd == 1\n"
        DEPTHWISE3X3_ROWS_S8_DSP_LAST2("r10", "r11")
        "    .endif\n"
        "    .if %c[right] && ge_odd == 2\n"
        DEPTHWISE3X3_ROWS_S8_DSP_LAST2("r12", "lr")
        "    .endif\n"
        "    ldrd r7, r2, [sp, #4*2]\n"
        "    add.w r0, r0, #1\n"
        "    add.w r1, r1, #1\n"
        "    cmp.w r7, r2\n"
        "    bne.w 1b\n"
        GE_DSP_LEAVE
        "    .endif\n"
        : "+r"(r0)
        : [step] "i"(DEPTHWISE3X3_ROWS_S8_DSP_STEP), [row] "i"(DEPTHWISE3X3_ROWS_S8_DSP_ROW),
          [rest] "i"(DEPTHWISE3X3_ROWS_S8_DSP_REST), [left] "i"(DEPTHWISE3X3_ROWS_S8_DSP_LEFT),
          [right] "i"(DEPTHWISE3X3_ROWS_S8_DSP_RIGHT), [up] "i"(DEPTHWISE3X3_ROWS_S8_DSP_UP),
          [pairs] "i"(DEPTHWISE3X3_ROWS_S8_DSP_PAIRS)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

static void ge_depthwise3x3_rows_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const int32_t *stream,
                                        const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    ge_dsp_depthwise_rows(p, x, stream, out, first_row, last_row, depthwise3x3_rows_s8_dsp_row,
                          DEPTHWISE3X3_ROWS_S8_DSP_PAIRS ? depthwise3x3_rows_s8_dsp_pair : NULL);
}
