/* int8 GRU, whose reset comes before or after the product with the state: Helium.
 *
 * The input's products with all gates become int16 first (ge_mve_gates.h). Those of the state are added in place for z
 * and r; those for n are stored separately where the reset comes after them, and else computed from the reset state.
 * Gates are computed for eight units at a time. Arguments of z and r take turns, eight each; those of n follow. Each loop
 * over them is a function of its own: with the variables of its caller, gcc has too few registers for it at -O1 and -Os.
 *
 * scratch: states, arguments, products of the state for n, hidden state, reset state and input with at least 64 bytes
 * each; the number of units is rounded up to a multiple of eight there.
 */
#include "ge.h"
#include "ge_mve.h"
#include "ge_mve_gates.h"
#include "ge_params.h"

#define RECURRENT_GRU_S8_MVE_COARSE 0

GE_MVE_GATES_PRODUCT(recurrent_gru_s8_mve_store, GE_MVE_GATES_STORE, RECURRENT_GRU_S8_MVE_COARSE)
GE_MVE_GATES_PRODUCT(recurrent_gru_s8_mve_add, GE_MVE_GATES_ADD, RECURRENT_GRU_S8_MVE_COARSE)

/* clang-format off */

/* Sets the vectors of GE_MVE_GATES_SIGMOID; r4 is changed. */
#define RECURRENT_GRU_S8_MVE_BEGIN                                                                                     \
    "mov r4, #63\n"                                                                                                    \
    "vdup.16 q4, r4\n"                                                                                                 \
    "mov r4, #32\n"                                                                                                    \
    "vdup.16 q5, r4\n"                                                                                                 \
    "movw r4, #32767\n"                                                                                                \
    "vdup.16 q6, r4\n"                                                                                                 \
    "dls lr, %[eights]\n"

/* Begins the loop over eights of units: gates z are stored in place of their arguments, gates r are left in q1. */
#define RECURRENT_GRU_S8_MVE_TWO                                                                                       \
    RECURRENT_GRU_S8_MVE_BEGIN                                                                                         \
    "1:\n"                                                                                                             \
    "vldrh.u16 q0, [%[arguments]], #32\n"                                                                              \
    "vldrh.u16 q1, [%[arguments], #-16]\n"                                                                             \
    GE_MVE_GATES_SIGMOID("q0", "q2", "q3")                                                                             \
    "vstrh.16 q0, [%[arguments], #-32]\n"                                                                              \
    GE_MVE_GATES_SIGMOID("q1", "q2", "q3")

/* Stores eight int16 states x as hidden states at `to`; a, b: other vectors. */
#define RECURRENT_GRU_S8_MVE_HIDDEN(x, a, b)                                                                           \
    "vdup.32 " b ", %[multiplier]\n"                                                                                   \
    "vshllb.s16 " a ", " x ", #8\n"                                                                                    \
    "vshllt.s16 " x ", " x ", #8\n"                                                                                    \
    "vrmulh.s32 " a ", " a ", " b "\n"                                                                                 \
    "vrmulh.s32 " x ", " x ", " b "\n"                                                                                 \
    "vqmovnb.s32 " a ", " a "\n"                                                                                       \
    "vqmovnt.s32 " a ", " x "\n"                                                                                       \
    "vqadd.s16 " a ", " a ", %[zero]\n"                                                                                \
    "vqmovnb.s16 " a ", " a "\n"                                                                                       \
    "vstrb.16 " a ", [%[to]], #8\n"

/* Computes the gates z and r in place of their arguments, and adds r times the products of the state, `own`, to the
 * arguments of n. */
static GE_NOINLINE void recurrent_gru_s8_mve_gates(int16_t *arguments, int16_t *n, const int16_t *own,
                                                   const int16_t *lines, int32_t units) {
    __asm__ volatile(RECURRENT_GRU_S8_MVE_TWO
                     "vldrh.u16 q2, [%[own]], #16\n"
                     "vldrh.u16 q3, [%[n]]\n"
                     "vqrdmulh.s16 q1, q1, q2\n"
                     "vqadd.s16 q1, q1, q3\n"
                     "vstrh.16 q1, [%[n]], #16\n"
                     "le lr, 1b\n"
                     : [arguments] "+&r"(arguments), [n] "+&r"(n), [own] "+&r"(own)
                     : [slopes] "r"(lines), [starts] "r"(lines + 1024), [one] "r"(1), [eights] "r"(units / 8)
                     : "r4", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "memory");
}

/* Computes the gate z in place of its arguments, and the hidden state of r times the state. */
static GE_NOINLINE void recurrent_gru_s8_mve_reset(const ge_recurrent_params *p, int16_t *arguments,
                                                   const int16_t *states, const int16_t *lines, int8_t *to,
                                                   int32_t units) {
    __asm__ volatile(RECURRENT_GRU_S8_MVE_TWO
                     "vldrh.u16 q2, [%[states]], #16\n"
                     "vqdmulh.s16 q1, q1, q2\n"
                     RECURRENT_GRU_S8_MVE_HIDDEN("q1", "q2", "q3")
                     "le lr, 1b\n"
                     : [arguments] "+&r"(arguments), [states] "+&r"(states), [to] "+&l"(to)
                     : [slopes] "r"(lines), [starts] "r"(lines + 1024), [one] "r"(1), [multiplier] "r"((int32_t)p->multiplier_h),
                       [zero] "r"((int32_t)p->zero_point), [eights] "r"(units / 8)
                     : "r4", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "memory");
}

/* Computes the new states H = n + ((z (H - n) + 2^14) >> 15) and hidden states from the arguments of n and the gates z
 * at `z`. The result fits in int16, so what it is computed from may wrap around there. */
static GE_NOINLINE void recurrent_gru_s8_mve_states(const ge_recurrent_params *p, const int16_t *n, const int16_t *z,
                                                    const int16_t *lines, int16_t *states, int8_t *to, int32_t units) {
    __asm__ volatile(RECURRENT_GRU_S8_MVE_BEGIN
                     "1:\n"
                     "vldrh.u16 q0, [%[n]], #16\n"
                     GE_MVE_GATES_TANH("q0", "q2", "q3")
                     "vldrh.u16 q1, [%[states]]\n"
                     "vldrh.u16 q2, [%[z]], #32\n"
                     "vmullb.s16 q3, q2, q1\n"
                     "vmullb.s16 q7, q2, q0\n"
                     "vsub.i32 q3, q3, q7\n"
                     "vmullt.s16 q1, q2, q1\n"
                     "vmullt.s16 q7, q2, q0\n"
                     "vsub.i32 q1, q1, q7\n"
                     "vrshr.s32 q3, q3, #15\n"
                     "vrshr.s32 q1, q1, #15\n"
                     "vmovnt.i32 q3, q1\n"
                     "vadd.i16 q0, q0, q3\n"
                     "vstrh.16 q0, [%[states]], #16\n"
                     RECURRENT_GRU_S8_MVE_HIDDEN("q0", "q2", "q3")
                     "le lr, 1b\n"
                     : [n] "+&r"(n), [z] "+&r"(z), [states] "+&r"(states), [to] "+&l"(to)
                     : [slopes] "r"(lines), [starts] "r"(lines + 1024), [one] "r"(1), [multiplier] "r"((int32_t)p->multiplier_h),
                       [zero] "r"((int32_t)p->zero_point), [eights] "r"(units / 8)
                     : "r4", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory");
}

/* Sets hidden states and states before the first step; VRMULH of x * 2^16 is the rounding of x * multiplier / 2^16, and
 * |x| < 2^8. */
static void recurrent_gru_s8_mve_first(const ge_recurrent_params *p, const ge_rows *h0, int32_t b, int16_t *states,
                                       int8_t *hidden, int32_t units) {
    if ((p->has_initial & 1) != 0) {
        ge_mve_copy(hidden, (const int8_t *)ge_row(h0, 0) + b * p->units, p->units);
    } else {
        ge_mve_fill(hidden, p->zero_point, units);
    }
    __asm__ volatile("vdup.32 q2, %[multiplier]\n"
                     "dls lr, %[eights]\n"
                     "1:\n"
                     "vldrb.s16 q0, [%[hidden]], #8\n"
                     "vsub.i16 q0, q0, %[zero]\n"
                     "vshllb.s16 q1, q0, #16\n"
                     "vshllt.s16 q0, q0, #16\n"
                     "vrmulh.s32 q1, q1, q2\n"
                     "vrmulh.s32 q0, q0, q2\n"
                     "vqmovnb.s32 q1, q1\n"
                     "vqmovnt.s32 q1, q0\n"
                     "vstrh.16 q1, [%[states]], #16\n"
                     "le lr, 1b\n"
                     : [hidden] "+&l"(hidden), [states] "+&r"(states)
                     : [eights] "r"(units / 8), [zero] "r"((int32_t)p->zero_point), [multiplier] "r"((int32_t)p->multiplier_0)
                     : "lr", "q0", "q1", "q2", "memory");
}

/* clang-format on */

/* Computes the states of one step from the products of its input; `stream` begins with the products of the state. */
static void recurrent_gru_s8_mve_step(const ge_recurrent_params *p, const int8_t *stream, const int16_t *lines,
                                      int16_t *states, int8_t *hidden, int8_t *reset, int32_t units) {
    int16_t *const arguments = states + units, *const n = arguments + 2 * units, *const own = n + units;
    const int32_t blocks = (p->units + 15) / 16;
    stream = recurrent_gru_s8_mve_add(hidden, blocks, stream, arguments, units / 4);
    ge_mve_gates_shift(arguments, p->exponent, 2 * units);
    if (p->before_reset != 0) {
        (void)recurrent_gru_s8_mve_store(hidden, blocks, stream, own, units / 8);
        recurrent_gru_s8_mve_gates(arguments, n, own, lines, units);
    } else {
        recurrent_gru_s8_mve_reset(p, arguments, states, lines, reset, units);
        (void)recurrent_gru_s8_mve_add(reset, blocks, stream, n, units / 8);
    }
    ge_mve_gates_shift(n, p->exponent, units);
    recurrent_gru_s8_mve_states(p, n, arguments, lines, states, hidden, units);
}

static void ge_recurrent_gru_s8_mve(const ge_recurrent_params *p, const ge_rows *x, const ge_rows *h0,
                                    const ge_rows *c0, const int8_t *stream, const int16_t *lines,
                                    const int32_t *lengths, const ge_rows *out, int32_t first_row, int32_t last_row,
                                    void *scratch) {
    const int32_t units = (p->units + 7) & ~7, size = units < 64 ? 64 : (units + 15) & ~15;
    int16_t *const states = (int16_t *)scratch, *const arguments = states + units;
    int8_t *const hidden = (int8_t *)(arguments + 4 * units);
    int8_t *const reset = hidden + size, *const input = reset + size;
    (void)c0;
    for (int32_t b = 0; first_row < last_row && b < p->batch; b++) {
        const int8_t *const from = (const int8_t *)ge_row(x, 0) + b * p->x_batch;
        int8_t *const to = (int8_t *)ge_row(out, 0) + b * p->y_batch;
        const int32_t length = p->has_lengths != 0 ? lengths[b] : p->steps;
        recurrent_gru_s8_mve_first(p, h0, b, states, hidden, units);
        for (int32_t step = 0; step < length; step++) {
            const int32_t time = p->reverse != 0 ? length - 1 - step : step;
            ge_mve_copy(input, from + time * p->x_step, p->in_c);
            const int8_t *const rest =
                recurrent_gru_s8_mve_store(input, (p->in_c + 15) / 16, stream, arguments, 3 * units / 8);
            recurrent_gru_s8_mve_step(p, rest, lines, states, hidden, reset, units);
            if (p->result == 0) {
                ge_mve_copy(to + time * p->y_step, hidden, p->units);
            }
        }
        if (p->result == 1) {
            ge_mve_copy(to, hidden, p->units);
        }
        for (int32_t step = length; p->result == 0 && step < p->steps; step++) {
            ge_mve_fill(to + step * p->y_step, p->zero_point, p->units);
        }
    }
}
