/* int8 LSTM: Helium.
 *
 * The input's products become int16 before the state's are added to them in place (ge_mve_gates.h). Cells are computed
 * for eight units at a time, whose arguments of i, g, f and o follow each other, with even and odd units separate in the
 * order of VMULLB and VMULLT.
 *
 * scratch: cells, arguments of all gates, hidden state and input with at least 64 bytes each; the number of units is
 * rounded up to a multiple of eight there.
 */
#include "ge.h"
#include "ge_mve.h"
#include "ge_mve_gates.h"
#include "ge_params.h"

#define RECURRENT_LSTM_S8_MVE_COARSE 0

GE_MVE_GATES_PRODUCT(recurrent_lstm_s8_mve_input, GE_MVE_GATES_STORE, RECURRENT_LSTM_S8_MVE_COARSE)
GE_MVE_GATES_PRODUCT(recurrent_lstm_s8_mve_state, GE_MVE_GATES_ADD, RECURRENT_LSTM_S8_MVE_COARSE)

/* clang-format off */

/* Not inlined: beside the caller's variables there are not enough registers. */
static GE_NOINLINE void recurrent_lstm_s8_mve_units(const ge_recurrent_params *p, const int16_t *arguments,
                                                    const int16_t *lines, int32_t *cells, int8_t *hidden,
                                                    int32_t units) {
    __asm__ volatile("dls lr, %[eights]\n"
                     "mov r4, #63\n"
                     "vdup.16 q4, r4\n"
                     "mov r4, #32\n"
                     "vdup.16 q5, r4\n"
                     "movw r4, #32767\n"
                     "vdup.16 q6, r4\n"
                     "1:\n"
                     "vldrh.u16 q0, [%[arguments]], #64\n"
                     "vldrh.u16 q1, [%[arguments], #-48]\n"
                     GE_MVE_GATES_SIGMOID("q0", "q2", "q3")
                     GE_MVE_GATES_TANH("q1", "q2", "q3")
                     "vmullb.s16 q2, q0, q1\n"
                     "vmullt.s16 q1, q0, q1\n"
                     "vldrh.u16 q0, [%[arguments], #-32]\n"
                     "vshr.s32 q2, q2, #6\n"
                     "vshr.s32 q1, q1, #6\n"
                     GE_MVE_GATES_SIGMOID("q0", "q3", "q7")
                     "vldrw.u32 q7, [%[cells]]\n"
                     "vshllb.s16 q3, q0, #16\n"
                     "vmulh.s32 q3, q7, q3\n"
                     "vldrw.u32 q7, [%[cells], #16]\n"
                     "vshllt.s16 q0, q0, #16\n"
                     "vmulh.s32 q0, q7, q0\n"
                     "vadd.i32 q3, q3, q3\n"
                     "vadd.i32 q0, q0, q0\n"
                     "vqadd.s32 q2, q2, q3\n"
                     "vqadd.s32 q1, q1, q0\n"
                     "vstrw.32 q2, [%[cells]], #32\n"
                     "vstrw.32 q1, [%[cells], #-16]\n"
                     "vshr.s32 q2, q2, #12\n"
                     "vshr.s32 q1, q1, #12\n"
                     "vqmovnb.s32 q0, q2\n"
                     "vqmovnt.s32 q0, q1\n"
                     "vldrh.u16 q1, [%[arguments], #-16]\n"
                     GE_MVE_GATES_TANH("q0", "q2", "q3")
                     GE_MVE_GATES_SIGMOID("q1", "q2", "q3")
                     "vdup.32 q3, %[multiplier]\n"
                     "vmullb.s16 q2, q0, q1\n"
                     "vmullt.s16 q1, q0, q1\n"
                     "vrmulh.s32 q2, q2, q3\n"
                     "vrmulh.s32 q1, q1, q3\n"
                     "vqmovnb.s32 q0, q2\n"
                     "vqmovnt.s32 q0, q1\n"
                     "vqadd.s16 q0, q0, %[zero]\n"
                     "vqmovnb.s16 q0, q0\n"
                     "vstrb.16 q0, [%[hidden]], #8\n"
                     "le lr, 1b\n"
                     : [arguments] "+&r"(arguments), [cells] "+&r"(cells), [hidden] "+&l"(hidden)
                     : [slopes] "r"(lines), [starts] "r"(lines + 1024), [one] "r"(1), [multiplier] "r"((int32_t)p->multiplier_h),
                       [zero] "r"((int32_t)p->zero_point), [eights] "r"(units / 8)
                     : "r4", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory");
}

/* clang-format on */

/* Sets hidden states and cells before the first step. Cells are in the order of the kernel; those of the padding do not
 * matter. VQRDMULH of x * 2^(31 - shift) is the rounding of x * multiplier / 2^shift, and |x| < 2^8. */
static void recurrent_lstm_s8_mve_first(const ge_recurrent_params *p, const ge_rows *h0, const ge_rows *c0, int32_t b,
                                        int32_t *cells, int8_t *hidden, int32_t units) {
    const int8_t *from = (const int8_t *)ge_row(c0, 0) + b * p->units;
    int32_t count = p->units;
    if ((p->has_initial & 1) != 0) {
        ge_mve_copy(hidden, (const int8_t *)ge_row(h0, 0) + b * p->units, p->units);
    } else {
        ge_mve_fill(hidden, p->zero_point, p->units);
    }
    if ((p->has_initial & 2) == 0) {
        ge_mve_fill((int8_t *)cells, 0, 4 * units);
        return;
    }
    __asm__ volatile("dls lr, %[eights]\n"
                     "1:\n"
                     "vctp.16 %[count]\n"
                     "vpst\n"
                     "vldrbt.s16 q0, [%[from]], #8\n"
                     "vsub.i16 q0, q0, %[zero]\n"
                     "vmovlb.s16 q1, q0\n"
                     "vmovlt.s16 q0, q0\n"
                     "vshl.s32 q1, %[left]\n"
                     "vshl.s32 q0, %[left]\n"
                     "vqrdmulh.s32 q1, q1, %[multiplier]\n"
                     "vqrdmulh.s32 q0, q0, %[multiplier]\n"
                     "vstrw.32 q1, [%[cells]], #32\n"
                     "vstrw.32 q0, [%[cells], #-16]\n"
                     "subs %[count], #8\n"
                     "le lr, 1b\n"
                     : [from] "+&l"(from), [cells] "+&r"(cells), [count] "+&r"(count)
                     : [eights] "r"(units / 8), [zero] "r"((int32_t)p->c0_zero), [left] "r"(31 - p->c0_shift),
                       [multiplier] "r"((int32_t)p->c0_multiplier)
                     : "lr", "q0", "q1", "cc", "memory");
}

/* Returns where the cells begin in the result: after the states, if it has both. */
static inline int32_t recurrent_lstm_s8_mve_cells(const ge_recurrent_params *p) {
    return p->result == 2 ? 0 : p->batch * p->units * (p->result == 3 ? p->steps : 1);
}

/* Writes the last cells in their own type. The floor of the product at 2^32 leaves the rounding at 2^cell_shift exact,
 * as cell_shift exceeds 32. */
static void recurrent_lstm_s8_mve_cells_out(const ge_recurrent_params *p, const int32_t *cells, int8_t *to) {
    int32_t count = p->units;
    __asm__ volatile("dls lr, %[eights]\n"
                     "vdup.32 q2, %[multiplier]\n"
                     "1:\n"
                     "vldrw.u32 q0, [%[cells]], #32\n"
                     "vldrw.u32 q1, [%[cells], #-16]\n"
                     "vmulh.s32 q0, q0, q2\n"
                     "vmulh.s32 q1, q1, q2\n"
                     "vrshl.s32 q0, %[right]\n"
                     "vrshl.s32 q1, %[right]\n"
                     "vqmovnb.s32 q0, q0\n"
                     "vqmovnt.s32 q0, q1\n"
                     "vqadd.s16 q0, q0, %[zero]\n"
                     "vqmovnb.s16 q0, q0\n"
                     "vctp.16 %[count]\n"
                     "vpst\n"
                     "vstrbt.16 q0, [%[to]], #8\n"
                     "subs %[count], #8\n"
                     "le lr, 1b\n"
                     : [cells] "+&r"(cells), [to] "+&l"(to), [count] "+&r"(count)
                     : [eights] "r"((count + 7) / 8), [zero] "r"((int32_t)p->cell_zero),
                       [right] "r"(32 - p->cell_shift), [multiplier] "r"((int32_t)p->cell_multiplier)
                     : "lr", "q0", "q1", "q2", "cc", "memory");
}

static void recurrent_lstm_s8_mve_last(const ge_recurrent_params *p, const int32_t *cells, const int8_t *hidden,
                                       int32_t length, int8_t *out, int8_t *last_cells) {
    if (p->result % 3 == 1) {
        ge_mve_copy(out, hidden, p->units);
    }
    if (p->result >= 2) {
        recurrent_lstm_s8_mve_cells_out(p, cells, last_cells);
    }
    for (int32_t step = length; p->result % 3 == 0 && step < p->steps; step++) {
        ge_mve_fill(out + step * p->y_step, p->zero_point, p->units);
    }
}

static void ge_recurrent_lstm_s8_mve(const ge_recurrent_params *p, const ge_rows *x, const ge_rows *h0,
                                     const ge_rows *c0, const int8_t *stream, const int16_t *lines,
                                     const int32_t *lengths, const ge_rows *out, int32_t first_row, int32_t last_row,
                                     void *scratch) {
    const int32_t units = (p->units + 7) & ~7;
    int32_t *const cells = (int32_t *)scratch;
    int16_t *const arguments = (int16_t *)(cells + units);
    int8_t *const hidden = (int8_t *)(arguments + 4 * units);
    int8_t *const input = hidden + (units < 64 ? 64 : (units + 15) & ~15);
    for (int32_t b = 0; first_row < last_row && b < p->batch; b++) {
        const int8_t *const from = (const int8_t *)ge_row(x, 0) + b * p->x_batch;
        int8_t *const to = (int8_t *)ge_row(out, 0) + b * p->y_batch;
        const int32_t length = p->has_lengths != 0 ? lengths[b] : p->steps;
        recurrent_lstm_s8_mve_first(p, h0, c0, b, cells, hidden, units);
        for (int32_t step = 0; step < length; step++) {
            const int32_t time = p->reverse != 0 ? length - 1 - step : step;
            ge_mve_copy(input, from + time * p->x_step, p->in_c);
            const int8_t *const rest =
                recurrent_lstm_s8_mve_input(input, (p->in_c + 15) / 16, stream, arguments, units / 2);
            (void)recurrent_lstm_s8_mve_state(hidden, (p->units + 15) / 16, rest, arguments, units / 2);
            ge_mve_gates_shift(arguments, p->exponent, 4 * units);
            recurrent_lstm_s8_mve_units(p, arguments, lines, cells, hidden, units);
            if (p->result % 3 == 0) {
                ge_mve_copy(to + time * p->y_step, hidden, p->units);
            }
        }
        recurrent_lstm_s8_mve_last(p, cells, hidden, length, to,
                                   (int8_t *)ge_row(out, 0) + recurrent_lstm_s8_mve_cells(p) + b * p->units);
    }
}
