/* LSTM of int8 for Cortex-M4, M7 and M33: one unit after the other, its four gates at once, then its cell.
 *
 * A unit's stream: start values S B of (i, f) and (o, g), two words for each pair of k of the input, four multipliers, two words
 * for each pair of k of the state, four multipliers. 19 cycles for 16 products; 66 for a unit's requantization, functions and
 * cell. scratch: cells, the hidden state, input and state as int16. The starts of the products of the state are 0. */
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

/* In the order of the frame. */
typedef struct {
    const uint32_t *x; /* the input as int16, and the state behind it */
    const uint32_t *stream;
    const int32_t *table; /* the middle of it */
    int32_t *cell;
    int8_t *out;
    int8_t *end;
    int32_t multiplier; /* of the hidden state */
    int32_t zero_point;
} recurrent_lstm_s8_dsp_job;

/* clang-format off */

/* r0 stream, r1 int16 vectors, r2-r5 gates i f o g, r7 the bits of a table's line. */
__attribute__((noinline)) static void recurrent_lstm_s8_dsp_units(const recurrent_lstm_s8_dsp_job *job) {
    register const recurrent_lstm_s8_dsp_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_ENTER("recurrent_lstm_s8_dsp_units", 0, "r1-r6, r8, r9")
        "    mov r0, r2\n"
        "    mov r7, #0\n"
        "    .balign 4\n"
        "1:\n" /* a unit */
        "    ldr.w r1, [sp, #4*0]\n"
        "    ldr.w r2, [r0], #4\n"
        "    ldr.w r3, [r0], #4\n"
        "    ldr.w r4, [r0], #4\n"
        "    ldr.w r5, [r0], #4\n"
        GE_DSP_GATES_PRODUCTS("x_turns", "x_unroll")
        GE_DSP_GATES_SUMS
        "    smmulr r2, r2, r9\n"
        "    smmulr r3, r3, r10\n"
        "    smmulr r4, r4, r11\n"
        "    smmulr r5, r5, r12\n"
        "    ssat r2, #16, r2\n"
        "    ssat r3, #16, r3\n"
        "    ssat r4, #16, r4\n"
        "    ssat r5, #16, r5\n"
        "    strd r2, r3, [sp, #4*10]\n"
        "    strd r4, r5, [sp, #4*12]\n"
        "    mov r2, #0\n"
        "    mov r3, #0\n"
        "    mov r4, #0\n"
        "    mov r5, #0\n"
        GE_DSP_GATES_PRODUCTS("h_turns", "h_unroll")
        GE_DSP_GATES_SUMS
        "    ldrd r6, r8, [sp, #4*10]\n"
        "    smmlar r2, r2, r9, r6\n"
        "    smmlar r3, r3, r10, r8\n"
        "    ldrd r6, r8, [sp, #4*12]\n"
        "    smmlar r4, r4, r11, r6\n"
        "    smmlar r5, r5, r12, r8\n"
        "    ldr.w r12, [sp, #4*2]\n"
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
        "    ldrd r6, r8, [sp, #4*3]\n" /* cell, out */
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
        "    ldr.w r11, [sp, #4*5]\n"
        "    str.w r2, [r6], #4\n"
        "    ssat r2, #16, r2, asr #12\n"
        "    asr r9, r2, #6\n"
        "    ldr.w r9, [r12, r9, lsl #2]\n"
        "    ldrd r10, lr, [sp, #4*6]\n" /* multiplier, zero point */
        GE_DSP_GATES_LINE("r2", "r9")
        "    smultt r2, r4, r2\n"
        "    smmlar r2, r2, r10, lr\n"
        "    ssat r2, #8, r2\n"
        "    strb r2, [r8], #1\n"
        "    cmp r8, r11\n"
        "    strd r6, r8, [sp, #4*3]\n"
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

static void recurrent_lstm_s8_dsp_sequence(const ge_recurrent_params *p, recurrent_lstm_s8_dsp_job *job,
                                           uint32_t *vectors, const int8_t *x, int32_t length, int8_t *out) {
    int8_t *const hidden = job->out;
    for (int32_t step = 0; step < length; step++) {
        const int32_t time = p->reverse != 0 ? length - 1 - step : step;
        ge_dsp_gates_expand(x + time * p->x_step, p->in_c, vectors, RECURRENT_LSTM_S8_DSP_X_WORDS);
        ge_dsp_gates_expand(hidden, p->units, vectors + RECURRENT_LSTM_S8_DSP_X_WORDS, RECURRENT_LSTM_S8_DSP_H_WORDS);
        recurrent_lstm_s8_dsp_units(job);
        if (p->result == 0) {
            ge_dsp_copy(out + time * p->y_step, hidden, p->units);
        }
    }
    for (int32_t u = 0; p->result != 0 && u < p->units; u++) {
        out[u] = p->result == 1 ? hidden[u]
                                : (int8_t)ge_gates_scaled(job->cell[u], p->cell_multiplier, p->cell_shift, p->cell_zero,
                                                          INT8_MIN, INT8_MAX);
    }
    for (int32_t step = length; p->result == 0 && step < p->steps; step++) {
        memset(out + step * p->y_step, p->zero_point, (size_t)p->units);
    }
}

static void ge_recurrent_lstm_s8_dsp(const ge_recurrent_params *p, const ge_rows *x, const ge_rows *h0,
                                     const ge_rows *c0, const uint32_t *stream, const int32_t *tables,
                                     const int32_t *lengths, const ge_rows *out, int32_t first_row, int32_t last_row,
                                     void *scratch) {
    int32_t *const cells = (int32_t *)scratch;
    uint32_t *const vectors = (uint32_t *)(cells + p->units);
    int8_t *const hidden = (int8_t *)(vectors + RECURRENT_LSTM_S8_DSP_X_WORDS + RECURRENT_LSTM_S8_DSP_H_WORDS);
    recurrent_lstm_s8_dsp_job job = {vectors,           stream,          tables + 512, cells, hidden,
                                     hidden + p->units, p->multiplier_h, p->zero_point};
    for (int32_t b = 0; first_row < last_row && b < p->batch; b++) {
        for (int32_t u = 0; u < p->units; u++) {
            const int32_t at = b * p->units + u;
            const int8_t *const from = (const int8_t *)ge_row(c0, 0);
            const int32_t cell = (p->has_initial & 2) != 0 ? from[at] - p->c0_zero : 0;
            hidden[u] = (p->has_initial & 1) != 0 ? ((const int8_t *)ge_row(h0, 0))[at] : (int8_t)p->zero_point;
            cells[u] = ge_gates_scaled(cell, p->c0_multiplier, p->c0_shift, 0, INT32_MIN, INT32_MAX);
        }
        recurrent_lstm_s8_dsp_sequence(p, &job, vectors, (const int8_t *)ge_row(x, 0) + b * p->x_batch,
                                       p->has_lengths != 0 ? lengths[b] : p->steps,
                                       (int8_t *)ge_row(out, 0) + b * p->y_batch);
    }
}
