/* Code that the recurrent kernels of Cortex-M4, M7 and M33 share: parts of loops, and the expansion of a vector to
 * int16.
 *
 * In the argument of a gate, the upper half-word of a register is the T of the law: consecutive floors are exact, so
 * nothing has to be shifted down in between. ge_isa_dsp.h explains how weights of two rows share a half-word. */
#ifndef GE_ISA_DSP_GATES_H
#define GE_ISA_DSP_GATES_H

#include "ge.h"
#include "ge_gates.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

/* clang-format off */

/* Multiplies r1 by r0, with sums S01 r2, B01 r3, S23 r4, B23 r5; the operands `turns` and `unroll` are iterations, and
 * steps of four k in each. */
#define GE_DSP_GATES_PRODUCTS(turns, unroll) \
    "    .if %c[" turns "] > 1\n" \
    "    mov lr, %[" turns "]\n" \
    "    .endif\n" \
    "    .balign 4\n" \
    "3:\n" \
    "    .rept %c[" unroll "]\n" \
    "    ldr.w r8, [r1, #4]\n" \
    "    ldr.w r6, [r1], #8\n" \
    "    ldr.w r10, [r0, #4]\n" \
    "    ldr.w r11, [r0, #8]\n" \
    "    ldr.w r12, [r0, #12]\n" \
    "    ldr.w r9, [r0], #16\n" \
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

/* Makes 256 times the sums of four rows in r2 r3 r4 r5, and loads their multipliers into r9 r10 r11 r12. */
#define GE_DSP_GATES_SUMS \
    "    sub r2, r2, r3\n" \
    "    lsl r3, r3, #8\n" \
    "    sub r4, r4, r5\n" \
    "    lsl r5, r5, #8\n" \
    "    ldr.w r10, [r0, #4]\n" \
    "    ldr.w r11, [r0, #8]\n" \
    "    ldr.w r12, [r0, #12]\n" \
    "    ldr.w r9, [r0], #16\n"

/* x = T(x) in the upper half of it; t: a register for the word. r12: the middle of the table; r7: a mask of bits 5 to
 * 10. */
#define GE_DSP_GATES_INDEX(x, t) "    asr " t ", " x ", #6\n"
#define GE_DSP_GATES_WORD(t) "    ldr.w " t ", [r12, " t ", lsl #2]\n"
#define GE_DSP_GATES_LINE(x, t) \
    "    bfi r7, " x ", #5, #6\n" \
    "    smlabb " x ", " t ", r7, " t "\n"

/* The sigmoid from tanh; k: 2^30. */
#define GE_DSP_GATES_SIGMOID(x, k) "    add.w " x ", " k ", " x ", asr #1\n"

/* Converts an argument in steps of 2^exponent to int16. */
#define GE_DSP_GATES_SCALED(x) \
    "    ssat " x ", #16, " x "\n" \
    "    .if %c[exponent] > 0\n" \
    "    ssat " x ", #16, " x ", lsl %[exponent]\n" \
    "    .endif\n"

/* clang-format on */

/* Job of the loops over units, in the order of the frame. */
typedef struct {
    const uint32_t *x; /* the input of a step as int16, followed by the hidden state */
    const uint32_t *stream;
    const int32_t *table; /* the middle of it */
    void *kept;           /* the cells of an LSTM, int32; the states of a GRU, int16 */
    int8_t *hidden;
    int8_t *end; /* of the hidden state, whose units are even in a GRU */
    int32_t multiplier;
    int32_t zero_point;
} ge_dsp_gates_job;

/* Expands a vector to int16, in `words` words; those after it are 0. */
static inline void ge_dsp_gates_expand(const int8_t *x, int32_t count, uint32_t *to, int32_t words) {
    uint32_t *end = ge_dsp_expand_dense(x, count, to);
    while (end < to + words) {
        *end++ = 0;
    }
}

/* Sets the states before the first step of sequence `b`. */
static inline void ge_dsp_gates_first(const ge_recurrent_params *p, const ge_dsp_gates_job *job, const ge_rows *h0,
                                      const ge_rows *c0, int32_t b) {
    const int8_t *const states = (const int8_t *)ge_row(h0, 0) + b * p->units;
    const int8_t *const cells = (const int8_t *)ge_row(c0, 0) + b * p->units;
    for (int32_t u = 0; u < job->end - job->hidden; u++) {
        const int32_t cell = (p->has_initial & 2) != 0 ? cells[u] - p->c0_zero : 0;
        const int32_t hidden = (p->has_initial & 1) != 0 && u < p->units ? states[u] : p->zero_point;
        job->hidden[u] = (int8_t)hidden;
        if (p->kind == 0) {
            ((int32_t *)job->kept)[u] = ge_gates_scaled(cell, p->c0_multiplier, p->c0_shift, 0, INT32_MIN, INT32_MAX);
        } else {
            ((int16_t *)job->kept)[u] =
                (int16_t)ge_gates_scaled(hidden - p->zero_point, p->multiplier_0, 16, 0, INT16_MIN, INT16_MAX);
        }
    }
}

/* Where the cells begin in the result: behind the states, if it has both. */
static inline int32_t ge_dsp_gates_cells(const ge_recurrent_params *p) {
    return p->result == 2 ? 0 : p->batch * p->units * (p->result == 3 ? p->steps : 1);
}

/* Writes the result after the last step of a sequence, or zeros for the steps that it does not have. */
static inline void ge_dsp_gates_last(const ge_recurrent_params *p, const ge_dsp_gates_job *job, int32_t length,
                                     int8_t *out, int8_t *cells) {
    for (int32_t u = 0; p->result != 0 && u < p->units; u++) {
        if (p->result % 3 == 1) {
            out[u] = job->hidden[u];
        }
        if (p->result >= 2) {
            cells[u] = (int8_t)ge_gates_scaled(((const int32_t *)job->kept)[u], p->cell_multiplier, p->cell_shift,
                                               p->cell_zero, INT8_MIN, INT8_MAX);
        }
    }
    for (int32_t step = length; p->result % 3 == 0 && step < p->steps; step++) {
        memset(out + step * p->y_step, p->zero_point, (size_t)p->units);
    }
}

/* Computes all sequences; the vectors of a step take x_words and h_words. */
__attribute__((always_inline)) static inline void
ge_dsp_gates_run(const ge_recurrent_params *p, const ge_dsp_gates_job *job, uint32_t *vectors, const ge_rows *x,
                 const ge_rows *h0, const ge_rows *c0, const int32_t *lengths, const ge_rows *out, int32_t x_words,
                 int32_t h_words, void (*units)(const ge_dsp_gates_job *)) {
    for (int32_t b = 0; b < p->batch; b++) {
        const int8_t *const from = (const int8_t *)ge_row(x, 0) + b * p->x_batch;
        int8_t *const to = (int8_t *)ge_row(out, 0) + b * p->y_batch;
        const int32_t length = p->has_lengths != 0 ? lengths[b] : p->steps;
        ge_dsp_gates_first(p, job, h0, c0, b);
        for (int32_t step = 0; step < length; step++) {
            const int32_t time = p->reverse != 0 ? length - 1 - step : step;
            ge_dsp_gates_expand(from + time * p->x_step, p->in_c, vectors, x_words);
            ge_dsp_gates_expand(job->hidden, p->units, vectors + x_words, h_words);
            units(job);
            if (p->result % 3 == 0) {
                ge_dsp_copy(to + time * p->y_step, job->hidden, p->units);
            }
        }
        ge_dsp_gates_last(p, job, length, to, (int8_t *)ge_row(out, 0) + ge_dsp_gates_cells(p) + b * p->units);
    }
}

#endif
