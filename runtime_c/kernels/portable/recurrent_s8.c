/* LSTM, GRU and RNN, in portable C. */
#include "element_s8.h"
#include "ge.h"
#include "ge_gates.h"
#include "ge_params.h"
#include "ge_recurrent.h"

#define RECURRENT_S8_WEIGHT int8_t   /* or int16_t */
#define RECURRENT_S8_SUM int32_t     /* or int64_t, for int16 elements */
#define RECURRENT_S8_PRODUCT int32_t /* or int_fast32_t, which on a 64-bit core saves conversions to int64_t */

typedef struct {
    const RECURRENT_S8_WEIGHT *w;
    const RECURRENT_S8_SUM *start;
    const int32_t *multiplier;
    int32_t shift;
    int32_t n;
} recurrent_s8_matrix;

/* Computes the products of `rows` rows of a matrix, from row `first` on. */
static void recurrent_s8_products(const recurrent_s8_matrix *m, const int16_t *x, int32_t first, int32_t rows,
                                  int32_t *to) {
    const RECURRENT_S8_WEIGHT *w = m->w + first * m->n;
    for (int32_t row = first; row < first + rows; row++) {
        const int16_t *at = x;
        RECURRENT_S8_SUM sum = m->start[row];
        for (int32_t fours = m->n >> 2; fours > 0; fours--, at += 4, w += 4) {
            sum += (RECURRENT_S8_PRODUCT)at[0] * w[0];
            sum += (RECURRENT_S8_PRODUCT)at[1] * w[1];
            sum += (RECURRENT_S8_PRODUCT)at[2] * w[2];
            sum += (RECURRENT_S8_PRODUCT)at[3] * w[3];
        }
        for (; at < x + m->n; at++, w++) {
            sum += (RECURRENT_S8_PRODUCT)*at * *w;
        }
        to[row] = ge_recurrent_product(sum, m->multiplier[row], m->shift);
    }
}

static void recurrent_s8_step(const ge_recurrent *r, const recurrent_s8_matrix *own) {
    const int32_t units = r->p->units;
    const int32_t rows = ge_recurrent_rows(r->p);
    if (r->p->kind != 1) {
        recurrent_s8_products(own, r->h, 0, rows, r->ph);
        if (r->p->kind == 0) {
            ge_recurrent_lstm_cells(r);
            ge_recurrent_lstm_states(r);
        } else {
            ge_recurrent_rnn(r);
        }
        return;
    }
    recurrent_s8_products(own, r->h, 0, r->p->before_reset != 0 ? rows : 2 * units, r->ph);
    ge_recurrent_gru_gates(r);
    if (r->p->before_reset == 0) {
        recurrent_s8_products(own, r->h + units, 2 * units, units, r->ph);
    }
    ge_recurrent_gru_states(r);
}

/* Sets the states and cells of sequence b before its first step. */
static GE_NOINLINE void recurrent_s8_first(const ge_recurrent *r, const GE_ELEMENT *h0, const GE_ELEMENT *c0,
                                           int32_t b) {
    const ge_recurrent_params *const p = r->p;
    for (int32_t u = 0; u < p->units; u++) {
        const int32_t at = b * p->units + u;
        ge_recurrent_first(r, u, (p->has_initial & 1) != 0 ? h0[at] : 0, (p->has_initial & 2) != 0 ? c0[at] : 0);
    }
}

/* Writes what follows the last step of sequence b: its last states, its cells, and zeros in place of missing steps. */
static GE_NOINLINE void recurrent_s8_last(const ge_recurrent *r, int32_t length, const ge_rows *result, int32_t b) {
    const ge_recurrent_params *const p = r->p;
    GE_ELEMENT *const out = (GE_ELEMENT *)ge_row(result, 0) + b * p->y_batch;
    GE_ELEMENT *const cells = (GE_ELEMENT *)ge_row(result, 0) + ge_recurrent_cells(p) + b * p->units;
    for (int32_t u = 0; p->result % 3 == 1 && u < p->units; u++) {
        out[u] = (GE_ELEMENT)r->h[u];
    }
    for (int32_t u = 0; p->result >= 2 && u < p->units; u++) {
        cells[u] = (GE_ELEMENT)ge_recurrent_cell(r, u);
    }
    for (int32_t step = length; p->result % 3 == 0 && step < p->steps; step++) {
        for (int32_t u = 0; u < p->units; u++) {
            out[step * p->y_step + u] = (GE_ELEMENT)p->zero_point;
        }
    }
}

static void recurrent_s8_sequence(const ge_recurrent *r, const recurrent_s8_matrix *given,
                                  const recurrent_s8_matrix *own, const GE_ELEMENT *x, int32_t length,
                                  GE_ELEMENT *out) {
    const ge_recurrent_params *const p = r->p;
    const int32_t rows = ge_recurrent_rows(p);
    const int32_t stored = p->result % 3 == 0 ? p->units : 0; /* of each step */
    for (int32_t step = 0; step < length; step++) {
        const int32_t time = ge_recurrent_time(p, length, step);
        for (int32_t i = 0; i < p->in_c; i++) {
            r->x[i] = x[time * p->x_step + i];
        }
        recurrent_s8_products(given, r->x, 0, rows, r->px);
        for (int32_t row = 0; row < rows; row++) {
            r->px[row] = ge_gates_sat16(r->px[row]);
        }
        recurrent_s8_step(r, own);
        for (int32_t u = 0; u < stored; u++) {
            out[time * p->y_step + u] = (GE_ELEMENT)r->h[u];
        }
    }
}

static void ge_recurrent_s8(const ge_recurrent_params *p, const ge_rows *x, const ge_rows *h0, const ge_rows *c0,
                            const RECURRENT_S8_WEIGHT *weights, const RECURRENT_S8_WEIGHT *recurrent,
                            const RECURRENT_S8_SUM *start, const int32_t *multiplier, const int32_t *tables,
                            const int16_t *peephole, const int32_t *lengths, const ge_rows *out, int32_t first_row,
                            int32_t last_row, void *scratch) {
    const ge_recurrent r = ge_recurrent_begin(p, tables, peephole, GE_ELEMENT_LEAST, GE_ELEMENT_MOST, scratch);
    const int32_t rows = ge_recurrent_rows(p);
    const recurrent_s8_matrix given = {weights, start, multiplier, p->x_shift, p->in_c};
    const recurrent_s8_matrix own = {recurrent, start + rows, multiplier + rows, p->h_shift, p->units};
    for (int32_t b = 0; first_row < last_row && b < p->batch; b++) {
        recurrent_s8_first(&r, (const GE_ELEMENT *)ge_row(h0, 0), (const GE_ELEMENT *)ge_row(c0, 0), b);
        const int32_t length = p->has_lengths != 0 ? lengths[b] : p->steps;
        recurrent_s8_sequence(&r, &given, &own, (const GE_ELEMENT *)ge_row(x, 0) + b * p->x_batch, length,
                              (GE_ELEMENT *)ge_row(out, 0) + b * p->y_batch);
        recurrent_s8_last(&r, length, out, b);
    }
}
