/* Functions and states of recurrent layers for sixteen units, computed one after the other. ge_x86_gates_zmm.h computes
 * them in vectors. */
#ifndef GE_X86_GATES_H
#define GE_X86_GATES_H

#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_x86_portable.h"

static inline GE_X86_INLINE int32_t ge_x86_gates_short(int32_t x) {
    return ge_clamp(x, INT16_MIN, INT16_MAX);
}

/* tanh of px plus `more`, in steps of 2^exponent. */
static inline GE_X86_INLINE int32_t ge_x86_gates_tanh(int32_t px, int32_t more, int32_t exponent,
                                                      const int32_t *table) {
    const int32_t sum = ge_x86_gates_short(ge_x86_gates_short(px) + more);
    const int32_t p = ge_x86_gates_short(sum * (1 << exponent));
    const int32_t word = table[(p >> 6) + 512];
    return (word + (int16_t)word * (32 * (p & 63))) >> 16;
}

/* Computes `count` functions of px + ph in steps of 2^exponent: sigmoids, and behind them tanh. May write up to 15 more
 * numbers. */
static inline GE_X86_INLINE void ge_x86_gates_functions(const int32_t *px, const int32_t *ph, const int32_t *table,
                                                        int32_t exponent, int32_t count, int32_t sigmoids,
                                                        int32_t *to) {
    for (int32_t i = 0; i < count; i++) {
        const int32_t t = ge_x86_gates_tanh(px[i], ph[i], exponent, table);
        to[i] = i < sigmoids ? (t + 32768) >> 1 : t;
    }
}

/* Computes the new cells and hidden states of up to sixteen units of an LSTM from its gates, which lie `units` apart.
 * Of the sixteen numbers that may be written, those behind the first `count` do not matter. */
static inline GE_X86_INLINE void ge_x86_gates_lstm(const int32_t *gates, const int32_t *table, int32_t units,
                                                   int32_t count, int32_t *cells, int8_t *hidden) {
    for (int32_t u = 0; u < 16 && u < count; u++) {
        const int32_t i = gates[u], o = gates[units + u], f = gates[2 * units + u], g = gates[3 * units + u];
        const int64_t sum = 2 * ((int64_t)cells[u] * f >> 16) + (i * g >> 6);
        const int32_t cell = (int32_t)(sum < INT32_MIN ? INT32_MIN : (sum > INT32_MAX ? INT32_MAX : sum));
        /* cppcheck-suppress shiftNegativeLHS -- every compiler shifts in the sign, as in all kernels */
        const int32_t t = ge_x86_gates_tanh(ge_x86_gates_short(cell >> 12), 0, 0, table);
        cells[u] = cell;
        hidden[u] = (int8_t)ge_clamp((o * t + (1 << 22)) >> 23, INT8_MIN, INT8_MAX);
    }
}

/* Computes the new states and hidden states of up to sixteen units of a GRU from its gates z and r and the products of
 * n. */
static inline GE_X86_INLINE void ge_x86_gates_gru(const int32_t *gates, const int32_t *px, const int32_t *ph,
                                                  const int32_t *table, int32_t e, int32_t units, int32_t count,
                                                  int32_t *states, int8_t *hidden) {
    for (int32_t u = 0; u < 16 && u < count; u++) {
        const int32_t z = gates[u], r = gates[units + u];
        const int32_t own = (r * ge_x86_gates_short(ph[u]) + (1 << 14)) >> 15;
        const int32_t n = ge_x86_gates_tanh(px[u], own, e, table);
        const int32_t state = n + ((z * (states[u] - n) + (1 << 14)) >> 15);
        states[u] = state;
        hidden[u] = (int8_t)ge_clamp((state + 128) >> 8, INT8_MIN, INT8_MAX);
    }
}

#endif
