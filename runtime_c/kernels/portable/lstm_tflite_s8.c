/* LSTM of int8 with an int16 cell, with the bits of TensorFlow Lite Micro, in portable C. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"
#include "ge_requantize_tflite.h"

typedef struct {
    const ge_lstm_tflite_params *p;
    const int8_t *weights;
    const int8_t *recurrent;
    const int32_t *start;
    const int32_t *multiplier;
    const uint16_t *table;
    int16_t *gates; /* i, o, f, g */
    int16_t *cell;
    int8_t *h;
} lstm_tflite_s8;

static inline int32_t lstm_tflite_s8_sat16(int32_t x) {
    return ge_clamp(x, INT16_MIN, INT16_MAX);
}

static int32_t lstm_tflite_s8_product(const int8_t *w, const int8_t *x, int32_t n, int32_t sum, const int32_t *words) {
    for (int32_t fours = n >> 2; fours > 0; fours--, w += 4, x += 4) {
        sum += w[0] * x[0];
        sum += w[1] * x[1];
        sum += w[2] * x[2];
        sum += w[3] * x[3];
    }
    for (int32_t ones = n & 3; ones > 0; ones--) {
        sum += *w++ * *x++;
    }
    return lstm_tflite_s8_sat16(ge_multiply_tflite(sum, words[0], words[1]));
}

/* The line between two entries of the table, in 2^-bits of them; n counts 2^-bits of the distance of two entries. */
static int32_t lstm_tflite_s8_line(const uint16_t *table, int32_t n, int32_t bits, int32_t beyond) {
    const int32_t at = n >> bits;
    if (at >= 255) {
        return beyond;
    }
    const int32_t low = table[at];
    return (low << bits) + (n & ((1 << bits) - 1)) * (table[at + 1] - low);
}

static int32_t lstm_tflite_s8_sigmoid(const uint16_t *table, int32_t x) {
    const int32_t n = 3 * x;
    const int32_t y = lstm_tflite_s8_line(table, n < 0 ? -n : n, 9, 0x7FFF << 10);
    return (n >= 0 ? y + (1 << 9) : (1 << 25) - y + (1 << 9) - 1) >> 10;
}

static int32_t lstm_tflite_s8_tanh(const uint16_t *table, int32_t x, int32_t multiplier, int32_t shift) {
    const int32_t n = (x * multiplier + ((1 << shift) >> 1)) >> shift;
    const int32_t y = lstm_tflite_s8_line(table, n < 0 ? -n : n, 8, 0xFFFF << 8) - (1 << 23);
    return (n >= 0 ? y + (1 << 7) : -y + (1 << 7) - 1) >> 8;
}

static void lstm_tflite_s8_gates(const lstm_tflite_s8 *l, const int8_t *x) {
    const ge_lstm_tflite_params *const p = l->p;
    const int8_t *w = l->weights;
    const int8_t *r = l->recurrent;
    const int32_t *start = l->start;
    int16_t *gate = l->gates;
    for (int32_t g = 0; g < 4; g++) {
        const int32_t *const words = l->multiplier + 2 * g;
        for (int32_t u = 0; u < p->units; u++, w += p->in_c, r += p->units, start++) {
            const int32_t given = lstm_tflite_s8_product(w, x, p->in_c, start[0], words);
            const int32_t own = lstm_tflite_s8_product(r, l->h, p->units, start[4 * p->units], words + 8);
            *gate++ = (int16_t)lstm_tflite_s8_sat16(given + own);
        }
    }
}

static void lstm_tflite_s8_states(const lstm_tflite_s8 *l) {
    const ge_lstm_tflite_params *const p = l->p;
    const int32_t *const words = p->words;
    for (int32_t u = 0; u < p->units; u++) {
        const int16_t *const gate = l->gates + u;
        const int32_t i = lstm_tflite_s8_sigmoid(l->table, gate[0]);
        const int32_t o = lstm_tflite_s8_sigmoid(l->table, gate[p->units]);
        const int32_t f = lstm_tflite_s8_sigmoid(l->table, gate[2 * p->units]);
        const int32_t g = lstm_tflite_s8_tanh(l->table, gate[3 * p->units], 3, 0);
        const int32_t kept = lstm_tflite_s8_sat16(ge_multiply_tflite(f * l->cell[u], words[0], words[1]));
        const int32_t added = lstm_tflite_s8_sat16(ge_multiply_tflite(i * g, words[2], words[3]));
        const int32_t cell = ge_clamp(lstm_tflite_s8_sat16(kept + added), p->cell_low, p->cell_high);
        const int32_t t = lstm_tflite_s8_tanh(l->table, cell, p->tanh_multiplier, p->tanh_shift);
        l->cell[u] = (int16_t)cell;
        l->h[u] = (int8_t)ge_clamp(ge_multiply_tflite(t * o, words[4], words[5]) + p->zero_point, -128, 127);
    }
}

static void ge_lstm_tflite_s8(const ge_lstm_tflite_params *p, const ge_rows *x, const int8_t *weights,
                              const int8_t *recurrent, const int32_t *start, const int32_t *multiplier,
                              const uint16_t *table, const ge_rows *out, int32_t first_row, int32_t last_row,
                              void *scratch) {
    int16_t *const gates = (int16_t *)scratch;
    int16_t *const cell = gates + 4 * p->units;
    const lstm_tflite_s8 l = {
        p, weights, recurrent, start, multiplier, table, gates, cell, (int8_t *)(cell + p->units)};
    for (int32_t b = 0; first_row < last_row && b < p->batch; b++) {
        const int8_t *const xs = (const int8_t *)ge_row(x, 0) + b * p->x_batch;
        int8_t *const o = (int8_t *)ge_row(out, 0) + b * p->y_batch;
        for (int32_t u = 0; u < p->units; u++) {
            l.cell[u] = 0;
            l.h[u] = (int8_t)p->zero_point;
        }
        for (int32_t step = 0; step < p->steps; step++) {
            lstm_tflite_s8_gates(&l, xs + step * p->x_step);
            lstm_tflite_s8_states(&l);
            for (int32_t u = 0; u < p->units; u++) {
                o[step * p->y_step + u] = l.h[u];
            }
        }
    }
}
