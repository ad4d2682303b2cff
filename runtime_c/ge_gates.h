/* The integer law of recurrent operators. It gives the same bits as glowembed/law/gates.py for the same numbers.
 *
 * Gates, their arguments, and states are int16 numbers (Q0.15) in int32_t; cells are Q7.24. */
#ifndef GE_GATES_H
#define GE_GATES_H

#include "ge_fixedpoint.h"

static inline int32_t ge_gates_sat16(int32_t x) {
    return ge_clamp(x, INT16_MIN, INT16_MAX);
}

/* clamp(((total * multiplier + 2^(shift-1)) >> shift) + zero_point, lo, hi); |total * multiplier| < 2^62, shift 1..62. */
static inline int32_t ge_gates_scaled(int64_t total, int32_t multiplier, int32_t shift, int32_t zero_point, int32_t lo,
                                      int32_t hi) {
    const int64_t y = ((total * multiplier + ((int64_t)1 << (shift - 1))) >> shift) + zero_point;
    return (int32_t)(y < lo ? lo : (y > hi ? hi : y));
}

/* Applies a function to an int16 argument by its table of 1024 words. */
static inline int32_t ge_gates_lookup(const int32_t *table, int32_t p) {
    const int32_t word = table[(p >> 6) + 512];
    return (word + (int16_t)word * (32 * (p & 63))) >> 16;
}

/* Applies an activation to an argument in steps of 2^exponent. function: twice the number of its table, plus 1 for the
 * sigmoid that is computed from the table of tanh. */
static inline int32_t ge_gates_activated(const int32_t *tables, int32_t function, int32_t exponent, int32_t p) {
    const int32_t t = ge_gates_lookup(tables + 1024 * (function >> 1), ge_gates_sat16(p * (1 << exponent)));
    return (function & 1) != 0 ? (t + 32768) >> 1 : t;
}

/* Returns the new cell of an LSTM, clamp(((i * g) >> 6) + 2 * ((c * f) >> 16)) to int32. */
static inline int32_t ge_gates_cell(int32_t cell, int32_t i, int32_t g, int32_t f) {
    const int64_t kept = 2 * (((int64_t)cell * f) >> 16) + ((i * g) >> 6);
    return (int32_t)(kept < INT32_MIN ? INT32_MIN : (kept > INT32_MAX ? INT32_MAX : kept));
}

/* Returns the new state of a GRU, which lies between n and the old state. */
static inline int32_t ge_gates_state(int32_t state, int32_t z, int32_t n) {
    return n + ((z * (state - n) + (1 << 14)) >> 15);
}

#endif
