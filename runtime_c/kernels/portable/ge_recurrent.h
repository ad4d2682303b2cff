/* The steps of the portable recurrent kernels, for one sequence; each kernel computes the products itself. Hidden
 * states are int16 here, whatever type the output has. */
#ifndef GE_RECURRENT_H
#define GE_RECURRENT_H

#include "ge.h"
#include "ge_gates.h"
#include "ge_params.h"

typedef struct {
    const ge_recurrent_params *p;
    const int32_t *tables;
    const int16_t *peephole;
    int32_t lo; /* limits of a stored hidden state */
    int32_t hi;
    int32_t *kept; /* the cells of an LSTM, or the int16 states of a GRU */
    int32_t *px;   /* products with the input, gate after gate */
    int32_t *ph;   /* products with the hidden state, which may exceed int16 */
    int16_t *x;    /* the input of one step */
    int16_t *h;    /* the stored hidden states, then those after the reset gate of a GRU */
} ge_recurrent;

static inline int32_t ge_recurrent_rows(const ge_recurrent_params *p) {
    return p->kind == 0 ? 4 * p->units : (p->kind == 1 ? 3 * p->units : p->units);
}

static inline ge_recurrent ge_recurrent_begin(const ge_recurrent_params *p, const int32_t *tables,
                                              const int16_t *peephole, int32_t lo, int32_t hi, void *scratch) {
    const int32_t rows = ge_recurrent_rows(p);
    ge_recurrent r = {p, tables, peephole, lo, hi, (int32_t *)scratch, 0, 0, 0, 0};
    r.px = r.kept + p->units;
    r.ph = r.px + rows;
    r.x = (int16_t *)(r.ph + rows);
    r.h = r.x + p->in_c;
    return r;
}

/* Sets state i before the first step to h0 and c0, or to 0 if the network gives none. */
static inline void ge_recurrent_first(const ge_recurrent *r, int32_t i, int32_t h0, int32_t c0) {
    const ge_recurrent_params *const p = r->p;
    r->h[i] = (int16_t)((p->has_initial & 1) != 0 ? h0 : p->zero_point);
    r->kept[i] = 0;
    if (p->kind == 1) {
        r->kept[i] = ge_gates_scaled(r->h[i] - p->zero_point, p->multiplier_0, 16, 0, INT16_MIN, INT16_MAX);
    } else if ((p->has_initial & 2) != 0) {
        r->kept[i] = ge_gates_scaled(c0 - p->c0_zero, p->c0_multiplier, p->c0_shift, 0, INT32_MIN, INT32_MAX);
    }
}

/* Applies activation `which` to the argument of a gate, which is clipped first. */
static inline int32_t ge_recurrent_function(const ge_recurrent *r, int32_t which, int32_t gate, int32_t argument) {
    const int32_t limit = r->p->limits[gate];
    const int32_t within = ge_clamp(argument, -limit, limit);
    return ge_gates_activated(r->tables, r->p->functions[which], r->p->exponent, within);
}

/* Returns one product as int32. A larger range would not change the argument, which saturates to int16. */
static inline int32_t ge_recurrent_product(int64_t sum, int32_t multiplier, int32_t shift) {
    return ge_gates_scaled(sum, multiplier, shift, 0, INT32_MIN / 2, INT32_MAX / 2);
}

/* Returns px + ph of one gate of a unit, plus the peephole's product with the cell if there is one. */
static inline int32_t ge_recurrent_argument(const ge_recurrent *r, int32_t gate, int32_t unit, int32_t cell) {
    const int32_t at = gate * r->p->units + unit;
    const int32_t sum = ge_gates_sat16(r->px[at] + r->ph[at]);
    const int32_t shift = gate > 2 ? 0 : r->p->peephole_shifts[gate];
    if (shift == 0) {
        return sum;
    }
    /* Without the factor, gcc 12 warns of a layer without peepholes, whose array has one element, before it drops this code. */
    const int64_t product = (int64_t)r->peephole[at * r->p->has_peephole] * (cell >> 12);
    const int64_t seen = sum + ((product + ((int64_t)1 << (shift - 1))) >> shift);
    return (int32_t)(seen < INT16_MIN ? INT16_MIN : (seen > INT16_MAX ? INT16_MAX : seen));
}

/* Computes the new cells of an LSTM. The hidden states have a loop of their own, so that both need little stack. */
static inline void ge_recurrent_lstm_cells(const ge_recurrent *r) {
    const ge_recurrent_params *const p = r->p;
    for (int32_t u = 0; u < p->units; u++) {
        const int32_t old = r->kept[u];
        const int32_t i = ge_recurrent_function(r, 0, 0, ge_recurrent_argument(r, 0, u, old));
        const int32_t f =
            p->input_forget != 0 ? 32767 - i : ge_recurrent_function(r, 0, 2, ge_recurrent_argument(r, 2, u, old));
        const int32_t g = ge_recurrent_function(r, 1, 3, ge_recurrent_argument(r, 3, u, old));
        r->kept[u] = ge_gates_cell(old, i, g, f);
    }
}

static inline void ge_recurrent_lstm_states(const ge_recurrent *r) {
    const ge_recurrent_params *const p = r->p;
    for (int32_t u = 0; u < p->units; u++) {
        const int32_t cell = r->kept[u];
        const int32_t o = ge_recurrent_function(r, 0, 1, ge_recurrent_argument(r, 1, u, cell));
        const int32_t seen = ge_gates_sat16(cell >> ((p->functions[2] & 1) != 0 ? 13 : 12));
        const int32_t t = ge_gates_activated(r->tables, p->functions[2], 0, seen);
        r->h[u] = (int16_t)ge_gates_scaled((int64_t)o * t, p->multiplier_h, 32, p->zero_point, r->lo, r->hi);
    }
}

/* Returns an int16 state in the form in which it is stored. */
static inline int16_t ge_recurrent_stored(const ge_recurrent *r, int32_t state) {
    return (int16_t)ge_gates_scaled(state, r->p->multiplier_h, 24, r->p->zero_point, r->lo, r->hi);
}

/* Computes the gates z and r of a GRU, which replace their px, and the stored r * H. */
static inline void ge_recurrent_gru_gates(const ge_recurrent *r) {
    const ge_recurrent_params *const p = r->p;
    for (int32_t u = 0; u < p->units; u++) {
        const int32_t z = ge_recurrent_function(r, 0, 0, ge_recurrent_argument(r, 0, u, 0));
        const int32_t reset = ge_recurrent_function(r, 0, 1, ge_recurrent_argument(r, 1, u, 0));
        r->px[u] = z;
        r->px[p->units + u] = reset;
        r->h[p->units + u] = ge_recurrent_stored(r, (reset * r->kept[u]) >> 15);
    }
}

static inline void ge_recurrent_gru_states(const ge_recurrent *r) {
    const ge_recurrent_params *const p = r->p;
    for (int32_t u = 0; u < p->units; u++) {
        const int32_t at = 2 * p->units + u;
        int32_t own = r->ph[at];
        if (p->before_reset != 0) {
            own = (r->px[p->units + u] * ge_gates_sat16(own) + (1 << 14)) >> 15;
        }
        const int32_t n = ge_recurrent_function(r, 1, 2, ge_gates_sat16(r->px[at] + own));
        r->kept[u] = ge_gates_state(r->kept[u], r->px[u], n);
        r->h[u] = ge_recurrent_stored(r, r->kept[u]);
    }
}

static GE_NOINLINE void ge_recurrent_rnn(const ge_recurrent *r) {
    for (int32_t u = 0; u < r->p->units; u++) {
        r->h[u] = ge_recurrent_stored(r, ge_recurrent_function(r, 0, 0, ge_recurrent_argument(r, 0, u, 0)));
    }
}

/* Returns which input of a sequence is used in step `step`; they run backwards if `reverse` is set. */
static inline int32_t ge_recurrent_time(const ge_recurrent_params *p, int32_t length, int32_t step) {
    return p->reverse != 0 && step < length ? length - 1 - step : step;
}

/* Returns where the cells begin in the result: after the states if the result has both. */
static inline int32_t ge_recurrent_cells(const ge_recurrent_params *p) {
    return p->result == 2 ? 0 : p->batch * p->units * (p->result == 3 ? p->steps : 1);
}

/* Returns the cell of a unit in the form of the result. */
static inline int32_t ge_recurrent_cell(const ge_recurrent *r, int32_t u) {
    const ge_recurrent_params *const p = r->p;
    return ge_gates_scaled(r->kept[u], p->cell_multiplier, p->cell_shift, p->cell_zero, r->lo, r->hi);
}

#endif
