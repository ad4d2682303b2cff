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

#define GE_DSP_GATES_ADD(sum, a, b) "    smlad " sum ", " a ", " b ", " sum "\n"
#define GE_DSP_GATES_SET(sum, a, b) "    smuad " sum ", " a ", " b "\n"

/* Four k; FIRST is what happens to the sums before the second pair of k. */
#define GE_DSP_GATES_STEP(FIRST) \
    "    ldr.w r8, [r1, #4]\n" \
    "    ldr.w r6, [r1], #8\n" \
    "    ldr.w r10, [r0, #4]\n" \
    "    ldr.w r11, [r0, #8]\n" \
    "    ldr.w r12, [r0, #12]\n" \
    "    ldr.w r9, [r0], #16\n" \
    FIRST("r2", "r9", "r6") \
    FIRST("r4", "r10", "r6") \
    GE_DSP_GATES_ADD("r2", "r11", "r8") \
    GE_DSP_GATES_ADD("r4", "r12", "r8") \
    "    sxtb16 r9, r9\n" \
    "    sxtb16 r10, r10\n" \
    "    sxtb16 r11, r11\n" \
    "    sxtb16 r12, r12\n" \
    FIRST("r3", "r9", "r6") \
    FIRST("r5", "r10", "r6") \
    GE_DSP_GATES_ADD("r3", "r11", "r8") \
    GE_DSP_GATES_ADD("r5", "r12", "r8")

/* Multiplies r1 by r0, with sums S01 r2, B01 r3, S23 r4, B23 r5; the operands `turns` and `unroll` are iterations, and
 * steps of four k in each. FIRST: GE_DSP_GATES_ADD to add to the sums, GE_DSP_GATES_SET to begin with 0. */
#define GE_DSP_GATES_PRODUCTS(FIRST, turns, unroll) \
    "    .if %c[" turns "] > 1\n" \
    "    mov lr, %[" turns "]\n" \
    "    .endif\n" \
    GE_DSP_GATES_STEP(FIRST) \
    "    .if %c[" turns "] > 1\n" \
    "    b.w 4f\n" \
    "    .balign 4\n" \
    "3:\n" \
    GE_DSP_GATES_STEP(GE_DSP_GATES_ADD) \
    "    .balign 4\n" \
    "4:\n" \
    "    .endif\n" \
    "    .rept %c[" unroll "] - 1\n" \
    GE_DSP_GATES_STEP(GE_DSP_GATES_ADD) \
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

/* (a * b + 2^31) >> 32 */
static inline int32_t ge_dsp_gates_high(int32_t a, int32_t b) {
    int32_t y;
    __asm__("smmulr %[y], %[a], %[b]" : [y] "=r"(y) : [a] "r"(a), [b] "r"(b));
    return y;
}

/* Sets the cells before the first step. SMMULR of x * 2^left rounds as the law, and |x| is below 2^8. */
static inline void ge_dsp_gates_first_cells(const ge_recurrent_params *p, const int8_t *from, int32_t *cells) {
    const int32_t zero = p->c0_zero;
    const int32_t multiplier = p->c0_multiplier;
    const int32_t left = 32 - p->c0_shift;
    int32_t count = p->units;
    if (left >= 0 && left < 24) {
        int32_t x;
        __asm__ volatile("    .balign 4\n"
                         "1:\n"
                         "    ldrsb %[x], [%[from]], #1\n"
                         "    subs.w %[count], %[count], #1\n"
                         "    mla %[x], %[x], %[one], %[zero]\n"
                         "    smmulr %[x], %[x], %[multiplier]\n"
                         "    str.w %[x], [%[cells]], #4\n"
                         "    bne.w 1b\n"
                         : [from] "+&r"(from), [cells] "+&r"(cells), [count] "+&r"(count), [x] "=&r"(x)
                         : [one] "r"(1 << left), [zero] "r"(-zero * (1 << left)), [multiplier] "r"(multiplier)
                         : "cc", "memory");
        return;
    }
    for (; count > 0; count--) {
        *cells++ = ge_gates_scaled(*from++ - zero, multiplier, 32 - left, 0, INT32_MIN, INT32_MAX);
    }
}

/* Sets the states before the first step of sequence `b`. */
static inline void ge_dsp_gates_first(const ge_recurrent_params *p, const ge_dsp_gates_job *job, const ge_rows *h0,
                                      const ge_rows *c0, int32_t b) {
    int8_t *const hidden = job->hidden;
    const int32_t count = job->end - hidden;
    if ((p->has_initial & 1) != 0) {
        hidden[count - 1] = (int8_t)p->zero_point;
        ge_dsp_copy(hidden, (const int8_t *)ge_row(h0, 0) + b * p->units, p->units);
    } else {
        memset(hidden, p->zero_point, (size_t)count);
    }
    if (p->kind == 0 && (p->has_initial & 2) != 0) {
        ge_dsp_gates_first_cells(p, (const int8_t *)ge_row(c0, 0) + b * p->units, (int32_t *)job->kept);
    } else if (p->kind == 0) {
        memset(job->kept, 0, 4 * (size_t)count);
    } else {
        int16_t *const kept = (int16_t *)job->kept;
        for (int32_t u = 0; u < count; u++) {
            const int32_t state = ge_dsp_gates_high((hidden[u] - p->zero_point) * 65536, p->multiplier_0);
            kept[u] = (int16_t)ge_gates_sat16(state);
        }
    }
}

/* Where the cells begin in the result: behind the states, if it has both. */
static inline int32_t ge_dsp_gates_cells(const ge_recurrent_params *p) {
    return p->result == 2 ? 0 : p->batch * p->units * (p->result == 3 ? p->steps : 1);
}

/* Writes the cells in their own type. The floor of a product at 2^32 leaves its rounding at 2^cell_shift exact if
 * cell_shift exceeds 32. */
static inline void ge_dsp_gates_last_cells(const ge_recurrent_params *p, const int32_t *cells, int8_t *to) {
    const int32_t zero = p->cell_zero;
    const int32_t multiplier = p->cell_multiplier;
    const int32_t right = p->cell_shift - 32;
    int32_t count = p->units;
    if (right > 0) {
        int32_t x;
        __asm__ volatile(
            "    .balign 4\n"
            "1:\n"
            "    ldr.w %[x], [%[cells]], #4\n"
            "    subs.w %[count], %[count], #1\n"
            "    smmla %[x], %[x], %[multiplier], %[half]\n"
            "    asr.w %[x], %[x], %[right]\n"
            "    add.w %[x], %[x], %[zero]\n"
            "    ssat %[x], #8, %[x]\n"
            "    strb %[x], [%[to]], #1\n"
            "    bne.w 1b\n"
            : [to] "+&r"(to), [cells] "+&r"(cells), [count] "+&r"(count), [x] "=&r"(x)
            : [half] "r"(1 << (right - 1)), [right] "r"(right), [zero] "r"(zero), [multiplier] "r"(multiplier)
            : "cc", "memory");
        return;
    }
    for (; count > 0; count--) {
        *to++ = (int8_t)ge_gates_scaled(*cells++, multiplier, 32 + right, zero, INT8_MIN, INT8_MAX);
    }
}

/* Writes the result after the last step of a sequence, or zeros for the steps that it does not have. */
static inline void ge_dsp_gates_last(const ge_recurrent_params *p, const ge_dsp_gates_job *job, int32_t length,
                                     int8_t *out, int8_t *cells) {
    if (p->result % 3 == 1) {
        ge_dsp_copy(out, job->hidden, p->units);
    }
    if (p->result >= 2) {
        ge_dsp_gates_last_cells(p, (const int32_t *)job->kept, cells);
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
