/* int8 LSTM for Cortex-M4, M7 and M33: one unit after another, its four gates at once, then its cell.
 *
 * A unit's stream holds start values S B of (i, f) and (o, g), two words for each pair of k of the input, four
 * multipliers, two words for each pair of k of the state, four multipliers. Cost: 19 cycles for 16 products; 66 for a
 * unit's requantization, functions and cell. scratch: cells, the hidden state, input and state as int16. The start
 * values of the products of the state are 0. */
#include "ge.h"
#include "ge_gates.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_gates.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

#define RECURRENT_LSTM_S8_DSP_X_TURNS 1
#define RECURRENT_LSTM_S8_DSP_X_UNROLL 1
#define RECURRENT_LSTM_S8_DSP_H_TURNS 1
#define RECURRENT_LSTM_S8_DSP_H_UNROLL 1
#define RECURRENT_LSTM_S8_DSP_EXPONENT 0

/* clang-format off */

/* r0 stream, r1 int16 vectors, r2-r5 gates i f o g, r7 the mask of a table's line. */
__attribute__((noinline)) static void recurrent_lstm_s8_dsp_units(const ge_dsp_gates_job *job) {
    register const ge_dsp_gates_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_ENTER(recurrent_lstm_s8_dsp_units, 0, "r1-r6, r8, r9")
        "    mov r0, r2\n"
        "    mov r7, #0\n"
        "    .balign 4\n"
        "1:\n" /* a unit */
        "    ldr.w r1, [sp, #4*0]\n"
        "    ldr.w r3, [r0, #4]\n"
        "    ldr.w r4, [r0, #8]\n"
        "    ldr.w r5, [r0, #12]\n"
        "    ldr.w r2, [r0], #16\n"
        GE_DSP_GATES_PRODUCTS(GE_DSP_GATES_ADD, "x_turns", "x_unroll")
        GE_DSP_GATES_SUMS
        "    smmulr r2, r2, r9\n"
        "    smmulr r3, r3, r10\n"
        "    smmulr r4, r4, r11\n"
        "    smmulr r5, r5, r12\n"
        "    ssat r2, #16, r2\n"
        "    str.w r2, [sp, #4*10]\n"
        "    ssat r3, #16, r3\n"
        "    str.w r3, [sp, #4*11]\n"
        "    ssat r4, #16, r4\n"
        "    str.w r4, [sp, #4*12]\n"
        "    ssat r5, #16, r5\n"
        "    str.w r5, [sp, #4*13]\n"
        GE_DSP_GATES_PRODUCTS(GE_DSP_GATES_SET, "h_turns", "h_unroll")
        GE_DSP_GATES_SUMS
        "    ldr.w r6, [sp, #4*10]\n"
        "    ldr.w r8, [sp, #4*11]\n"
        "    ldr.w r1, [sp, #4*12]\n"
        "    ldr.w lr, [sp, #4*13]\n"
        "    smmlar r2, r2, r9, r6\n"
        "    smmlar r3, r3, r10, r8\n"
        "    smmlar r4, r4, r11, r1\n"
        "    smmlar r5, r5, r12, lr\n"
        "    ldr.w r12, [sp, #4*2]\n"
        "    ldr.w r6, [sp, #4*3]\n" /* cell */
        "    ldr.w r8, [sp, #4*4]\n" /* out */
        GE_DSP_GATES_SCALED("r2")
        GE_DSP_GATES_SCALED("r3")
        GE_DSP_GATES_SCALED("r4")
        GE_DSP_GATES_SCALED("r5")
        GE_DSP_GATES_INDEX("r2", "r9")
        GE_DSP_GATES_INDEX("r3", "r10")
        GE_DSP_GATES_INDEX("r4", "r11")
        GE_DSP_GATES_INDEX("r5", "lr")
        GE_DSP_GATES_WORD("r9")
        GE_DSP_GATES_WORD("r10")
        GE_DSP_GATES_WORD("r11")
        GE_DSP_GATES_WORD("lr")
        "    ldr.w r1, [r6]\n"
        GE_DSP_GATES_LINE("r2", "r9")
        GE_DSP_GATES_LINE("r3", "r10")
        GE_DSP_GATES_LINE("r4", "r11")
        GE_DSP_GATES_LINE("r5", "lr")
        "    mov r9, #0x40000000\n"
        GE_DSP_GATES_SIGMOID("r2", "r9")
        GE_DSP_GATES_SIGMOID("r3", "r9")
        GE_DSP_GATES_SIGMOID("r4", "r9")
        "    smultt r2, r2, r5\n"
        "    smulwt r3, r1, r3\n"
        "    asr r2, r2, #6\n"
        "    qdadd r2, r2, r3\n"
        "    str.w r2, [r6], #4\n"
        "    ssat r2, #16, r2, asr #12\n"
        "    asr r9, r2, #6\n"
        "    str.w r6, [sp, #4*3]\n"
        GE_DSP_GATES_WORD("r9")
        "    ldr.w r10, [sp, #4*6]\n" /* multiplier */
        "    ldr.w lr, [sp, #4*7]\n"  /* zero point */
        "    ldr.w r11, [sp, #4*5]\n"
        GE_DSP_GATES_LINE("r2", "r9")
        "    smultt r2, r4, r2\n"
        "    smmlar r2, r2, r10, lr\n"
        "    ssat r2, #8, r2\n"
        "    strb r2, [r8], #1\n"
        "    cmp r8, r11\n"
        "    str.w r8, [sp, #4*4]\n"
        "    bne.w 1b\n"
        GE_DSP_LEAVE
        : "+r"(r0)
        : [x_turns] "i"(RECURRENT_LSTM_S8_DSP_X_TURNS), [x_unroll] "i"(RECURRENT_LSTM_S8_DSP_X_UNROLL),
          [h_turns] "i"(RECURRENT_LSTM_S8_DSP_H_TURNS), [h_unroll] "i"(RECURRENT_LSTM_S8_DSP_H_UNROLL),
          [exponent] "i"(RECURRENT_LSTM_S8_DSP_EXPONENT)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

#define RECURRENT_LSTM_S8_DSP_X_WORDS (2 * RECURRENT_LSTM_S8_DSP_X_TURNS * RECURRENT_LSTM_S8_DSP_X_UNROLL)
#define RECURRENT_LSTM_S8_DSP_H_WORDS (2 * RECURRENT_LSTM_S8_DSP_H_TURNS * RECURRENT_LSTM_S8_DSP_H_UNROLL)

static void ge_recurrent_lstm_s8_dsp(const ge_recurrent_params *p, const ge_rows *x, const ge_rows *h0,
                                     const ge_rows *c0, const uint32_t *stream, const int32_t *tables,
                                     const int32_t *lengths, const ge_rows *out, int32_t first_row, int32_t last_row,
                                     void *scratch) {
    int32_t *const cells = (int32_t *)scratch;
    uint32_t *const vectors = (uint32_t *)(cells + p->units);
    int8_t *const hidden = (int8_t *)(vectors + RECURRENT_LSTM_S8_DSP_X_WORDS + RECURRENT_LSTM_S8_DSP_H_WORDS);
    const ge_dsp_gates_job job = {vectors,           stream,          tables + 512, cells, hidden,
                                  hidden + p->units, p->multiplier_h, p->zero_point};
    if (first_row < last_row) {
        ge_dsp_gates_run(p, &job, vectors, x, h0, c0, lengths, out, RECURRENT_LSTM_S8_DSP_X_WORDS,
                         RECURRENT_LSTM_S8_DSP_H_WORDS, recurrent_lstm_s8_dsp_units);
    }
}
