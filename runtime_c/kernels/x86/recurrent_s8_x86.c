/* int8 LSTM, and int8 GRU whose product with the state is computed before the reset gate: one source for every level of
 * x86-64.
 *
 * Rows are products as in fc_s8_x86.c, 16 at a time; functions and states are those of ge_x86_gates.h.
 * The rows of each gate are a multiple of 16. The hidden state has the type 1/128.
 *
 * scratch: states, products of input and state, both vectors as elements, the hidden state.
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"
#include "ge_x86_gates.h"
#include "ge_x86_law.h"

#define RECURRENT_S8_X86_CHAINS 2

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

static GE_X86_FN void recurrent_s8_x86_states(const ge_recurrent_params *p, const int32_t *px, const int32_t *ph,
                                              const int32_t *table, int32_t units, int32_t *kept, int8_t *hidden) {
    for (int32_t u = 0; u < units; u += 16) {
        if (p->kind == 0) {
            ge_x86_gates_lstm(px + u, ph + u, table, p->exponent, units, kept + u, hidden + u);
        } else {
            ge_x86_gates_gru(px + u, ph + u, table, p->exponent, units, kept + u, hidden + u);
        }
    }
}

static GE_X86_FN void ge_recurrent_s8_x86(const ge_recurrent_params *p, const ge_rows *x, const ge_rows *h0,
                                          const ge_rows *c0, const int8_t *weights, const int32_t *start,
                                          const int32_t *multiplier, const int32_t *tables, const int32_t *lengths,
                                          const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t units = (p->units + 15) & ~15;
    const int32_t rows = (p->kind == 0 ? 4 : 3) * units;
    const int32_t x_steps = (p->in_c + 3) / 4, h_steps = (p->units + 3) / 4;
    int32_t *const kept = (int32_t *)scratch;
    int32_t *const px = kept + units;
    int32_t *const ph = px + rows;
    int8_t *const hidden = (int8_t *)(ph + rows);
    ge_x86_element *const vector = (ge_x86_element *)(void *)(hidden + units);
    for (int32_t b = 0; first_row < last_row && b < p->batch; b++) {
        const int8_t *const from = (const int8_t *)ge_row(x, 0) + b * p->x_batch;
        int8_t *const to = (int8_t *)ge_row(out, 0) + b * p->y_batch;
        const int32_t length = p->has_lengths != 0 ? lengths[b] : p->steps;
        recurrent_s8_x86_first(p, h0, c0, b, units, kept, hidden);
        for (int32_t step = 0; step < length; step++) {
            const int32_t time = p->reverse != 0 ? length - 1 - step : step;
            ge_x86_expand(vector, from + time * p->x_step, p->in_c);
            recurrent_s8_x86_products(vector, x_steps, weights, start, multiplier, rows, px);
            ge_x86_expand(vector, hidden, p->units);
            recurrent_s8_x86_products(vector, h_steps, weights + 4 * rows * x_steps, start + rows, multiplier + rows,
                                      rows, ph);
            recurrent_s8_x86_states(p, px, ph, tables, units, kept, hidden);
            if (p->result == 0) {
                memcpy(to + time * p->y_step, hidden, (size_t)p->units);
            }
        }
        for (int32_t step = length; p->result == 0 && step < p->steps; step++) {
            memset(to + step * p->y_step, 0, (size_t)p->units);
        }
        if (p->result == 1) {
            memcpy(to, hidden, (size_t)p->units);
        }
    }
}
