/* int8 LSTM, and int8 GRU whose product with the state is computed before the reset gate: one source for every level of
 * x86-64.
 *
 * Rows are products as in fc_s8_x86.c, 16 at a time, those of the inputs of four steps together; functions and states
 * are those of ge_x86_gates.h. The gates follow each other, and all rows are a multiple of 16. The hidden state has the
 * type 1/128.
 *
 * scratch: states, functions of the gates, products of four inputs and of the state, the hidden state, four vectors as
 * elements. What is read 16 at a time may begin at any unit.
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"
#include "ge_x86_gates.h"
#include "ge_x86_law.h"

#define RECURRENT_S8_X86_CHAINS 2
#define RECURRENT_S8_X86_TOGETHER 4 /* steps whose inputs are multiplied together */

/* Constants and scratch. */
typedef struct {
    const int8_t *weights;
    const int32_t *start;
    const int32_t *multiplier;
    const int32_t *table;
    int32_t rows;
    int32_t *kept;
    int32_t *gates;
    int32_t *px;
    int32_t *ph;
    int8_t *hidden;
    ge_x86_element *vector;
} recurrent_s8_x86_layer;

/* Computes the products of a vector with all rows, rounded but not yet saturated. */
static GE_X86_FN void recurrent_s8_x86_products(const ge_x86_element *x, int32_t steps, const int8_t *w,
                                                const int32_t *start, const int32_t *multiplier, int32_t rows,
                                                int32_t *to) {
    const ge_x86_law law = ge_x86_law_of(24, 0, INT8_MIN, INT8_MAX);
    for (int32_t row = 0; row < rows; row += 16) {
        ge_x86_sums acc[RECURRENT_S8_X86_CHAINS];
        int32_t step = 0;
        acc[0] = ge_x86_load(start + row);
        acc[1] = ge_x86_zero();
        for (; step + RECURRENT_S8_X86_CHAINS <= steps; step += RECURRENT_S8_X86_CHAINS) {
            GE_X86_UNROLL
            for (int32_t i = 0; i < RECURRENT_S8_X86_CHAINS; i++) {
                acc[i] = ge_x86_dot_four(acc[i], w + 64 * i, x + 4 * (step + i));
            }
            w += 64 * RECURRENT_S8_X86_CHAINS;
        }
        for (; step < steps; step++) {
            acc[0] = ge_x86_dot_four(acc[0], w, x + 4 * step);
            w += 64;
        }
        acc[0] = ge_x86_long_sums(ge_x86_add(acc[0], acc[1]), multiplier + row, NULL, -1, &law);
        memcpy(to + row, &acc[0], sizeof acc[0]);
    }
}

/* Does the same for the inputs of RECURRENT_S8_X86_TOGETHER steps, which lie 4 * steps elements apart. */
static GE_X86_FN void recurrent_s8_x86_inputs(const ge_x86_element *x, int32_t steps, const int8_t *w,
                                              const int32_t *start, const int32_t *multiplier, int32_t rows,
                                              int32_t *to) {
    const ge_x86_law law = ge_x86_law_of(24, 0, INT8_MIN, INT8_MAX);
    for (int32_t row = 0; row < rows; row += 16) {
        ge_x86_sums acc[RECURRENT_S8_X86_TOGETHER];
        GE_X86_UNROLL
        for (int32_t i = 0; i < RECURRENT_S8_X86_TOGETHER; i++) {
            acc[i] = ge_x86_load(start + row);
        }
        for (int32_t step = 0; step < steps; step++) {
            GE_X86_UNROLL
            for (int32_t i = 0; i < RECURRENT_S8_X86_TOGETHER; i++) {
                acc[i] = ge_x86_dot_four(acc[i], w, x + 4 * (i * steps + step));
            }
            w += 64;
        }
        GE_X86_UNROLL
        for (int32_t i = 0; i < RECURRENT_S8_X86_TOGETHER; i++) {
            acc[i] = ge_x86_long_sums(acc[i], multiplier + row, NULL, -1, &law);
            memcpy(to + i * rows + row, &acc[i], sizeof acc[i]);
        }
    }
}

/* Sets the states before the first step of sequence `b`. */
static GE_X86_FN void recurrent_s8_x86_first(const ge_recurrent_params *p, const ge_rows *h0, const ge_rows *c0,
                                             int32_t b, int32_t units, int32_t *kept, int8_t *hidden) {
    const int8_t *const states = (const int8_t *)ge_row(h0, 0) + b * p->units;
    const int8_t *const cells = (const int8_t *)ge_row(c0, 0) + b * p->units;
    memset(kept, 0, (size_t)units * sizeof *kept);
    memset(hidden, 0, (size_t)units);
    for (int32_t u = 0; u < p->units; u++) {
        if ((p->has_initial & 1) != 0) {
            hidden[u] = states[u];
        }
        if (p->kind != 0) {
            kept[u] = hidden[u] * 256;
        } else if ((p->has_initial & 2) != 0) {
            const int64_t product = (int64_t)(cells[u] - p->c0_zero) * p->c0_multiplier;
            const int64_t cell = (product + ((int64_t)1 << (p->c0_shift - 1))) >> p->c0_shift;
            kept[u] = (int32_t)(cell < INT32_MIN ? INT32_MIN : (cell > INT32_MAX ? INT32_MAX : cell));
        }
    }
}

/* Computes the new states and hidden states from the products of the input and of the state. */
static GE_X86_FN void recurrent_s8_x86_states(const ge_recurrent_params *p, const recurrent_s8_x86_layer *s,
                                              const int32_t *px) {
    const int32_t units = p->units, sigmoids = (p->kind == 0 ? 3 : 2) * units;
    ge_x86_gates_functions(px, s->ph, s->table, p->exponent, p->kind == 0 ? 4 * units : sigmoids, sigmoids, s->gates);
    for (int32_t u = 0; u < units; u += 16) {
        if (p->kind == 0) {
            ge_x86_gates_lstm(s->gates + u, s->table, units, units - u, s->kept + u, s->hidden + u);
        } else {
            const int32_t n = 2 * units + u;
            ge_x86_gates_gru(s->gates + u, px + n, s->ph + n, s->table, p->exponent, units, units - u, s->kept + u,
                             s->hidden + u);
        }
    }
}

/* Computes the products of the inputs of as many steps as are multiplied together; returns their number. */
static GE_X86_FN int32_t recurrent_s8_x86_given(const ge_recurrent_params *p, const recurrent_s8_x86_layer *s,
                                                const int8_t *x, int32_t step, int32_t length) {
    const int32_t x_steps = (p->in_c + 3) / 4;
    const int32_t count = length - step < RECURRENT_S8_X86_TOGETHER ? 1 : RECURRENT_S8_X86_TOGETHER;
    for (int32_t i = 0; i < count; i++) {
        const int32_t time = p->reverse != 0 ? length - 1 - step - i : step + i;
        ge_x86_expand(s->vector + 4 * i * x_steps, x + time * p->x_step, p->in_c);
    }
    if (count == 1) {
        recurrent_s8_x86_products(s->vector, x_steps, s->weights, s->start, s->multiplier, s->rows, s->px);
    } else {
        recurrent_s8_x86_inputs(s->vector, x_steps, s->weights, s->start, s->multiplier, s->rows, s->px);
    }
    return count;
}

/* Runs `count` steps from `step` on, whose products with the input are in s->px. */
static GE_X86_FN void recurrent_s8_x86_steps(const ge_recurrent_params *p, const recurrent_s8_x86_layer *s,
                                             int32_t step, int32_t count, int32_t length, int8_t *to) {
    const int32_t rows = s->rows, h_steps = (p->units + 3) / 4;
    const int8_t *const weights = s->weights + 4 * rows * ((p->in_c + 3) / 4);
    for (int32_t i = 0; i < count; i++) {
        const int32_t time = p->reverse != 0 ? length - 1 - step - i : step + i;
        ge_x86_expand(s->vector, s->hidden, p->units);
        recurrent_s8_x86_products(s->vector, h_steps, weights, s->start + rows, s->multiplier + rows, rows, s->ph);
        recurrent_s8_x86_states(p, s, s->px + i * rows);
        if (p->result == 0) {
            memcpy(to + time * p->y_step, s->hidden, (size_t)p->units);
        }
    }
}

static GE_X86_FN void ge_recurrent_s8_x86(const ge_recurrent_params *p, const ge_rows *x, const ge_rows *h0,
                                          const ge_rows *c0, const int8_t *weights, const int32_t *start,
                                          const int32_t *multiplier, const int32_t *tables, const int32_t *lengths,
                                          const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t units = (p->units + 15) & ~15, rows = ((p->kind == 0 ? 4 : 3) * p->units + 15) & ~15;
    recurrent_s8_x86_layer s = {weights, start, multiplier, tables, rows, (int32_t *)scratch,
                                NULL,    NULL,  NULL,       NULL,   NULL};
    s.gates = s.kept + units;
    s.px = s.gates + rows + 16;
    s.ph = s.px + RECURRENT_S8_X86_TOGETHER * rows + 16;
    s.hidden = (int8_t *)(s.ph + rows + 16);
    s.vector = (ge_x86_element *)(void *)(s.hidden + units);
    for (int32_t b = 0; first_row < last_row && b < p->batch; b++) {
        const int8_t *const from = (const int8_t *)ge_row(x, 0) + b * p->x_batch;
        int8_t *const to = (int8_t *)ge_row(out, 0) + b * p->y_batch;
        const int32_t length = p->has_lengths != 0 ? lengths[b] : p->steps;
        int32_t count = 0;
        recurrent_s8_x86_first(p, h0, c0, b, units, s.kept, s.hidden);
        for (int32_t step = 0; step < length; step += count) {
            count = recurrent_s8_x86_given(p, &s, from, step, length);
            recurrent_s8_x86_steps(p, &s, step, count, length, to);
        }
        for (int32_t step = length; p->result == 0 && step < p->steps; step++) {
            memset(to + step * p->y_step, 0, (size_t)p->units);
        }
        if (p->result == 1) {
            memcpy(to, s.hidden, (size_t)p->units);
        }
    }
}
