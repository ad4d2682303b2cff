/* int8 LSTM: Helium.
 *
 * Four rows of one gate are multiplied at a time. Up to 64 inputs stay in q4-q7, so 16 products of a row take a load
 * and a VMLADAVA; longer vectors are read again for every four rows. For each four rows the stream holds their weights,
 * 16 of each row in turn, four initial sums, which are 0 and absent for the products of the state, and four
 * multipliers. VRMULH of 256 * sum is the law's rounding, since sums are below 2^23. The input's products become int16
 * before the state's are added to them in place.
 * Cells are computed for eight units at a time, with even and odd units separate in the order of VMULLB and VMULLT.
 * `lines` holds the slopes and start values of the tables in the order of an unsigned index: start + VMULH(slope, 32 f
 * + 1) equals the floor of the law.
 *
 * scratch: cells, arguments of all gates, hidden state and input with at least 64 bytes each; the number of units is
 * rounded up to a multiple of eight there.
 */
#include <arm_mve.h>

#include "ge.h"
#include "ge_gates.h"
#include "ge_mve.h"
#include "ge_params.h"

/* clang-format off */

#define RECURRENT_LSTM_S8_MVE_SIXTEEN(multiply, q)                                                                     \
    "vldrb.8 q0, [%[stream]], #16\n"                                                                                   \
    multiply " r0, q0, " q "\n"                                                                                        \
    "vldrb.8 q1, [%[stream]], #16\n"                                                                                   \
    multiply " r2, q1, " q "\n"                                                                                        \
    "vldrb.8 q0, [%[stream]], #16\n"                                                                                   \
    multiply " r4, q0, " q "\n"                                                                                        \
    "vldrb.8 q1, [%[stream]], #16\n"                                                                                   \
    multiply " r6, q1, " q "\n"

/* Requantizes four sums in r0 r2 r4 r6 to int16: stores them as products of the input, or adds them to those at
 * `to`. */
#define RECURRENT_LSTM_S8_MVE_OF_INPUT                                                                                 \
    "vldrw.u32 q1, [%[stream]], #16\n"                                                                                 \
    "vldrw.u32 q2, [%[stream]], #16\n"                                                                                 \
    "vmov q0[2], q0[0], r0, r4\n"                                                                                      \
    "vmov q0[3], q0[1], r2, r6\n"                                                                                      \
    "vadd.i32 q0, q0, q1\n"                                                                                            \
    "vshl.i32 q0, q0, #8\n"                                                                                            \
    "vrmulh.s32 q0, q0, q2\n"                                                                                          \
    "vqmovnb.s32 q0, q0\n"                                                                                             \
    "vstrh.32 q0, [%[to]], #8\n"

#define RECURRENT_LSTM_S8_MVE_OF_STATE                                                                                 \
    "vldrw.u32 q2, [%[stream]], #16\n"                                                                                 \
    "vldrh.s32 q3, [%[to]]\n"                                                                                          \
    "vmov q0[2], q0[0], r0, r4\n"                                                                                      \
    "vmov q0[3], q0[1], r2, r6\n"                                                                                      \
    "vshl.i32 q0, q0, #8\n"                                                                                            \
    "vrmulh.s32 q0, q0, q2\n"                                                                                          \
    "vadd.i32 q0, q0, q3\n"                                                                                            \
    "vqmovnb.s32 q0, q0\n"                                                                                             \
    "vstrh.32 q0, [%[to]], #8\n"

/* Computes all rows for a vector of at most 64 elements, whose first 16 are in q4; `products` adds the others. */
#define RECURRENT_LSTM_S8_MVE_ROWS(products, end)                                                                      \
    __asm__ volatile("vldrb.8 q4, [%[x]]\n"                                                                            \
                     "vldrb.8 q5, [%[x], #16]\n"                                                                       \
                     "vldrb.8 q6, [%[x], #32]\n"                                                                       \
                     "vldrb.8 q7, [%[x], #48]\n"                                                                       \
                     "dls lr, %[fours]\n"                                                                              \
                     "1:\n" RECURRENT_LSTM_S8_MVE_SIXTEEN("vmladav.s8", "q4") products end                             \
                     "le lr, 1b\n"                                                                                     \
                     : [stream] "+&r"(stream), [to] "+&l"(to)                                                          \
                     : [x] "r"(x), [fours] "r"(fours)                                                                  \
                     : "r0", "r2", "r4", "r6", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory")

#define RECURRENT_LSTM_S8_MVE_TWO RECURRENT_LSTM_S8_MVE_SIXTEEN("vmladava.s8", "q5")
#define RECURRENT_LSTM_S8_MVE_THREE RECURRENT_LSTM_S8_MVE_TWO RECURRENT_LSTM_S8_MVE_SIXTEEN("vmladava.s8", "q6")
#define RECURRENT_LSTM_S8_MVE_FOUR RECURRENT_LSTM_S8_MVE_THREE RECURRENT_LSTM_S8_MVE_SIXTEEN("vmladava.s8", "q7")

/* Computes rows, four at a time, for a vector of any multiple of 16 elements. */
#define RECURRENT_LSTM_S8_MVE_LONG(end)                                                                                \
    for (; fours > 0; fours--) {                                                                                       \
        const int8_t *from = x;                                                                                        \
        __asm__ volatile("movs r0, #0\n"                                                                               \
                         "movs r2, #0\n"                                                                               \
                         "movs r4, #0\n"                                                                               \
                         "movs r6, #0\n"                                                                               \
                         "dls lr, %[blocks]\n"                                                                         \
                         "1:\n"                                                                                        \
                         "vldrb.8 q4, [%[x]], #16\n" RECURRENT_LSTM_S8_MVE_SIXTEEN("vmladava.s8", "q4")                \
                         "le lr, 1b\n" end                                                                             \
                         : [stream] "+&r"(stream), [to] "+&l"(to), [x] "+&r"(from)                                     \
                         : [blocks] "r"(blocks)                                                                        \
                         : "r0", "r2", "r4", "r6", "lr", "q0", "q1", "q2", "q3", "q4", "cc", "memory");                \
    }

/* Multiplies a vector by all rows; returns the rest of the stream. */
#define RECURRENT_LSTM_S8_MVE_PRODUCT(function, end)                                                                   \
    static const int8_t *function(const int8_t *x, int32_t blocks, const int8_t *stream, int16_t *to, int32_t fours) { \
        switch (blocks) {                                                                                              \
        case 1:                                                                                                        \
            RECURRENT_LSTM_S8_MVE_ROWS("", end);                                                                       \
            break;                                                                                                     \
        case 2:                                                                                                        \
            RECURRENT_LSTM_S8_MVE_ROWS(RECURRENT_LSTM_S8_MVE_TWO, end);                                                \
            break;                                                                                                     \
        case 3:                                                                                                        \
            RECURRENT_LSTM_S8_MVE_ROWS(RECURRENT_LSTM_S8_MVE_THREE, end);                                              \
            break;                                                                                                     \
        case 4:                                                                                                        \
            RECURRENT_LSTM_S8_MVE_ROWS(RECURRENT_LSTM_S8_MVE_FOUR, end);                                               \
            break;                                                                                                     \
        default:                                                                                                       \
            RECURRENT_LSTM_S8_MVE_LONG(end)                                                                            \
            break;                                                                                                     \
        }                                                                                                              \
        return stream;                                                                                                 \
    }

RECURRENT_LSTM_S8_MVE_PRODUCT(recurrent_lstm_s8_mve_input, RECURRENT_LSTM_S8_MVE_OF_INPUT)
RECURRENT_LSTM_S8_MVE_PRODUCT(recurrent_lstm_s8_mve_state, RECURRENT_LSTM_S8_MVE_OF_STATE)

/* clang-format on */

static inline int16x8_t recurrent_lstm_s8_mve_tanh(int16x8_t p, const int16_t *lines) {
    const uint16x8_t index = vshrq_n_u16(vreinterpretq_u16_s16(p), 6);
    const int16x8_t place = vmlasq_n_s16(vandq_s16(p, vdupq_n_s16(63)), vdupq_n_s16(32), 1);
    const int16x8_t slope = vldrhq_gather_shifted_offset_s16(lines, index);
    return vaddq_s16(vldrhq_gather_shifted_offset_s16(lines + 1024, index), vmulhq_s16(slope, place));
}

static inline int16x8_t recurrent_lstm_s8_mve_sigmoid(int16x8_t p, const int16_t *lines) {
    return vrhaddq_s16(recurrent_lstm_s8_mve_tanh(p, lines), vdupq_n_s16(32767));
}

/* Returns sat32(((i * g) >> 6) + 2 * ((c * f) >> 16)) for four units. */
static inline int32x4_t recurrent_lstm_s8_mve_cell(int32x4_t cell, int32x4_t product, int32x4_t forget) {
    const int32x4_t kept = vmulhq_s32(cell, forget);
    return vqaddq_s32(vshrq_n_s32(product, 6), vaddq_s32(kept, kept));
}

/* Returns eight arguments of a gate in steps of 2^0. */
static inline int16x8_t recurrent_lstm_s8_mve_gate(const int16_t *arguments, int32_t exponent) {
    const int16x8_t p = vldrhq_s16(arguments);
    return exponent != 0 ? vqshlq_r_s16(p, exponent) : p;
}

static void recurrent_lstm_s8_mve_units(const ge_recurrent_params *p, const int16_t *arguments, const int16_t *lines,
                                        int32_t *cells, int8_t *hidden, int32_t units) {
    const int32_t exponent = p->exponent;
    for (const int8_t *end = hidden + units; hidden < end; hidden += 8, arguments += 8, cells += 8) {
        const int16x8_t i = recurrent_lstm_s8_mve_sigmoid(recurrent_lstm_s8_mve_gate(arguments, exponent), lines);
        const int16x8_t g =
            recurrent_lstm_s8_mve_tanh(recurrent_lstm_s8_mve_gate(arguments + 3 * units, exponent), lines);
        const int16x8_t f =
            recurrent_lstm_s8_mve_sigmoid(recurrent_lstm_s8_mve_gate(arguments + 2 * units, exponent), lines);
        const int32x4_t even =
            recurrent_lstm_s8_mve_cell(vldrwq_s32(cells), vmullbq_int_s16(i, g), vshllbq_n_s16(f, 16));
        const int32x4_t odd =
            recurrent_lstm_s8_mve_cell(vldrwq_s32(cells + 4), vmulltq_int_s16(i, g), vshlltq_n_s16(f, 16));
        vstrwq_s32(cells, even);
        vstrwq_s32(cells + 4, odd);
        int16x8_t seen = vqmovnbq_s32(i, vshrq_n_s32(even, 12));
        seen = vqmovntq_s32(seen, vshrq_n_s32(odd, 12));
        const int16x8_t t = recurrent_lstm_s8_mve_tanh(seen, lines);
        const int16x8_t o =
            recurrent_lstm_s8_mve_sigmoid(recurrent_lstm_s8_mve_gate(arguments + units, exponent), lines);
        const int32x4_t multiplier = vdupq_n_s32(p->multiplier_h);
        int16x8_t h = vqmovnbq_s32(t, vrmulhq_s32(vmullbq_int_s16(o, t), multiplier));
        h = vqmovntq_s32(h, vrmulhq_s32(vmulltq_int_s16(o, t), multiplier));
        h = vqaddq_n_s16(h, (int16_t)p->zero_point);
        vstrbq_s16(hidden, vreinterpretq_s16_s8(vqmovnbq_s16(vreinterpretq_s8_s16(h), h)));
    }
}

/* Sets hidden states and cells before the first step. Cells are in the order of the kernel; those of the padding do not
 * matter. VQRDMULH of x * 2^(31 - shift) is the rounding of x * multiplier / 2^shift, and |x| < 2^8. */
static void recurrent_lstm_s8_mve_first(const ge_recurrent_params *p, const ge_rows *h0, const ge_rows *c0, int32_t b,
                                        int32_t *cells, int8_t *hidden, int32_t units) {
    const int8_t *const from = (const int8_t *)ge_row(c0, 0) + b * p->units;
    ge_mve_fill(hidden, p->zero_point, units);
    if ((p->has_initial & 1) != 0) {
        ge_mve_copy(hidden, (const int8_t *)ge_row(h0, 0) + b * p->units, p->units);
    }
    for (int32_t u = 0; u < units; u += 8) {
        int16x8_t x = vdupq_n_s16(0);
        if ((p->has_initial & 2) != 0) {
            const mve_pred16_t real = vctp16q((uint32_t)(p->units - u));
            x = vsubq_n_s16(vldrbq_z_s16(from + u, real), (int16_t)p->c0_zero);
        }
        const int32x4_t even = vshlq_r_s32(vmovlbq_s16(x), 31 - p->c0_shift);
        const int32x4_t odd = vshlq_r_s32(vmovltq_s16(x), 31 - p->c0_shift);
        vstrwq_s32(cells + u, vqrdmulhq_n_s32(even, p->c0_multiplier));
        vstrwq_s32(cells + u + 4, vqrdmulhq_n_s32(odd, p->c0_multiplier));
    }
}

/* Returns where the cells begin in the result: after the states, if it has both. */
static inline int32_t recurrent_lstm_s8_mve_cells(const ge_recurrent_params *p) {
    return p->result == 2 ? 0 : p->batch * p->units * (p->result == 3 ? p->steps : 1);
}

/* Writes the last cells in their own type. The floor of the product at 2^32 leaves the rounding at 2^cell_shift exact,
 * as cell_shift exceeds 32. */
static void recurrent_lstm_s8_mve_cells_out(const ge_recurrent_params *p, const int32_t *cells, int8_t *to) {
    const int32x4_t multiplier = vdupq_n_s32(p->cell_multiplier);
    for (int32_t u = 0; u < p->units; u += 8) {
        const int32x4_t even = vrshlq_n_s32(vmulhq_s32(vldrwq_s32(cells + u), multiplier), 32 - p->cell_shift);
        const int32x4_t odd = vrshlq_n_s32(vmulhq_s32(vldrwq_s32(cells + u + 4), multiplier), 32 - p->cell_shift);
        int16x8_t x = vqmovnbq_s32(vreinterpretq_s16_s32(even), vaddq_n_s32(even, p->cell_zero));
        x = vqmovntq_s32(x, vaddq_n_s32(odd, p->cell_zero));
        x = vreinterpretq_s16_s8(vqmovnbq_s16(vreinterpretq_s8_s16(x), x));
        vstrbq_p_s16(to + u, x, vctp16q((uint32_t)(p->units - u)));
    }
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
                recurrent_lstm_s8_mve_input(input, (p->in_c + 15) / 16, stream, arguments, units);
            (void)recurrent_lstm_s8_mve_state(hidden, (p->units + 15) / 16, rest, arguments, units);
            recurrent_lstm_s8_mve_units(p, arguments, lines, cells, hidden, units);
            if (p->result % 3 == 0) {
                ge_mve_copy(to + time * p->y_step, hidden, p->units);
            }
        }
        recurrent_lstm_s8_mve_last(p, cells, hidden, length, to,
                                   (int8_t *)ge_row(out, 0) + recurrent_lstm_s8_mve_cells(p) + b * p->units);
    }
}
