/* int8 LSTM: Helium.
 *
 * Eight rows of one gate are multiplied at a time, first those of units 0 2 4 6, then those of 1 3 5 7. Up to 64 inputs
 * stay in q4-q7, so 16 products of a row take a load and a VMLADAVA; longer vectors are read again for every four rows.
 * For each eight rows the stream holds their weights, four rows after the other four and 16 of each row in turn, then
 * eight start values, which are 0 and absent for the products of the state, and eight multipliers. Sums are below 2^23:
 * where multipliers are below 2^24, VQRDMULH by 2^7 times the multiplier is the law's rounding; where they are not
 * (COARSE), it is VRMULH of 2^8 times the sum. The input's products become int16 before the state's are added to them
 * in place.
 * Cells are computed for eight units at a time, whose arguments of i, g, f and o follow each other, with even and odd
 * units separate in the order of VMULLB and VMULLT. `lines` holds the slopes and start values of the tables in the
 * order of an unsigned index: start + VMULH(slope, 32 f + 1) equals the floor of the law.
 *
 * scratch: cells, arguments of all gates, hidden state and input with at least 64 bytes each; the number of units is
 * rounded up to a multiple of eight there.
 */
#include <arm_mve.h>

#include "ge.h"
#include "ge_gates.h"
#include "ge_mve.h"
#include "ge_params.h"

#define RECURRENT_LSTM_S8_MVE_COARSE 0

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

/* Moves the sums of four rows to a vector. */
#define RECURRENT_LSTM_S8_MVE_SUMS(q)                                                                                  \
    "vmov " q "[2], " q "[0], r0, r4\n"                                                                                \
    "vmov " q "[3], " q "[1], r2, r6\n"

#define RECURRENT_LSTM_S8_MVE_SCALED(q)                                                                                \
    "vldrw.u32 q0, [%[stream]], #16\n"                                                                                 \
    ".if %c[coarse]\n"                                                                                                 \
    "vshl.i32 " q ", " q ", #8\n"                                                                                      \
    "vrmulh.s32 " q ", " q ", q0\n"                                                                                    \
    ".else\n"                                                                                                          \
    "vqrdmulh.s32 " q ", " q ", q0\n"                                                                                  \
    ".endif\n"

/* Requantizes the sums of eight rows in q2 q3 to int16: stores them as products of the input, or adds them to those at
 * `to`. */
#define RECURRENT_LSTM_S8_MVE_OF_INPUT                                                                                 \
    "vldrw.u32 q0, [%[stream]], #16\n"                                                                                 \
    "vadd.i32 q2, q2, q0\n"                                                                                            \
    "vldrw.u32 q1, [%[stream]], #16\n"                                                                                 \
    "vadd.i32 q3, q3, q1\n"                                                                                            \
    RECURRENT_LSTM_S8_MVE_SCALED("q2")                                                                                 \
    RECURRENT_LSTM_S8_MVE_SCALED("q3")                                                                                 \
    "vqmovnb.s32 q2, q2\n"                                                                                             \
    "vqmovnt.s32 q2, q3\n"                                                                                             \
    "vstrh.16 q2, [%[to]], #16\n"

#define RECURRENT_LSTM_S8_MVE_OF_STATE                                                                                 \
    RECURRENT_LSTM_S8_MVE_SCALED("q2")                                                                                 \
    RECURRENT_LSTM_S8_MVE_SCALED("q3")                                                                                 \
    "vldrh.u16 q0, [%[to]]\n"                                                                                          \
    "vmovlb.s16 q1, q0\n"                                                                                              \
    "vmovlt.s16 q0, q0\n"                                                                                              \
    "vadd.i32 q2, q2, q1\n"                                                                                            \
    "vadd.i32 q3, q3, q0\n"                                                                                            \
    "vqmovnb.s32 q2, q2\n"                                                                                             \
    "vqmovnt.s32 q2, q3\n"                                                                                             \
    "vstrh.16 q2, [%[to]], #16\n"

/* Computes all rows for a vector of at most 64 elements, whose first 16 are in q4; `products` adds the others. */
#define RECURRENT_LSTM_S8_MVE_ROWS(products, end)                                                                      \
    __asm__ volatile("vldrb.8 q4, [%[x]]\n"                                                                            \
                     "vldrb.8 q5, [%[x], #16]\n"                                                                       \
                     "vldrb.8 q6, [%[x], #32]\n"                                                                       \
                     "vldrb.8 q7, [%[x], #48]\n"                                                                       \
                     "dls lr, %[eights]\n"                                                                             \
                     "1:\n"                                                                                            \
                     RECURRENT_LSTM_S8_MVE_SIXTEEN("vmladav.s8", "q4") products                                        \
                     RECURRENT_LSTM_S8_MVE_SUMS("q2")                                                                  \
                     RECURRENT_LSTM_S8_MVE_SIXTEEN("vmladav.s8", "q4") products                                        \
                     RECURRENT_LSTM_S8_MVE_SUMS("q3") end                                                              \
                     "le lr, 1b\n"                                                                                     \
                     : [stream] "+&r"(stream), [to] "+&r"(to)                                                          \
                     : [x] "r"(x), [eights] "r"(eights), [coarse] "i"(RECURRENT_LSTM_S8_MVE_COARSE)                    \
                     : "r0", "r2", "r4", "r6", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory")

#define RECURRENT_LSTM_S8_MVE_TWO RECURRENT_LSTM_S8_MVE_SIXTEEN("vmladava.s8", "q5")
#define RECURRENT_LSTM_S8_MVE_THREE RECURRENT_LSTM_S8_MVE_TWO RECURRENT_LSTM_S8_MVE_SIXTEEN("vmladava.s8", "q6")
#define RECURRENT_LSTM_S8_MVE_FOUR RECURRENT_LSTM_S8_MVE_THREE RECURRENT_LSTM_S8_MVE_SIXTEEN("vmladava.s8", "q7")

#define RECURRENT_LSTM_S8_MVE_LONG_FOUR(label, q)                                                                      \
    "mov %[from], %[x]\n"                                                                                              \
    "movs r0, #0\n"                                                                                                    \
    "movs r2, #0\n"                                                                                                    \
    "movs r4, #0\n"                                                                                                    \
    "movs r6, #0\n"                                                                                                    \
    "dls lr, %[blocks]\n"                                                                                              \
    label ":\n"                                                                                                        \
    "vldrb.8 q4, [%[from]], #16\n" RECURRENT_LSTM_S8_MVE_SIXTEEN("vmladava.s8", "q4")                                  \
    "le lr, " label "b\n"                                                                                              \
    RECURRENT_LSTM_S8_MVE_SUMS(q)

/* Computes rows, eight at a time, for a vector of any multiple of 16 elements. */
#define RECURRENT_LSTM_S8_MVE_LONG(end)                                                                                \
    for (; eights > 0; eights--) {                                                                                     \
        const int8_t *from;                                                                                            \
        __asm__ volatile(RECURRENT_LSTM_S8_MVE_LONG_FOUR("1", "q2")                                                    \
                         RECURRENT_LSTM_S8_MVE_LONG_FOUR("2", "q3") end                                                \
                         : [stream] "+&r"(stream), [to] "+&r"(to), [from] "=&r"(from)                                  \
                         : [x] "r"(x), [blocks] "r"(blocks), [coarse] "i"(RECURRENT_LSTM_S8_MVE_COARSE)                \
                         : "r0", "r2", "r4", "r6", "lr", "q0", "q1", "q2", "q3", "q4", "cc", "memory");                \
    }

/* Multiplies a vector by all rows; returns the rest of the stream. */
#define RECURRENT_LSTM_S8_MVE_PRODUCT(function, end)                                                                   \
    static const int8_t *function(const int8_t *x, int32_t blocks, const int8_t *stream, int16_t *to, int32_t eights) {\
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

/* x = tanh(x); a, b: other vectors; q4 63, q5 32. */
#define RECURRENT_LSTM_S8_MVE_TANH(x, a, b)                                                                            \
    "vshr.u16 " a ", " x ", #6\n"                                                                                      \
    "vldrh.u16 " b ", [%[slopes], " a ", uxtw #1]\n"                                                                   \
    "vand " x ", " x ", q4\n"                                                                                          \
    "vmlas.s16 " x ", q5, %[one]\n"                                                                                    \
    "vmulh.s16 " x ", " b ", " x "\n"                                                                                  \
    "vldrh.u16 " b ", [%[starts], " a ", uxtw #1]\n"                                                                   \
    "vadd.i16 " x ", " x ", " b "\n"

/* The same for the sigmoid; q6 32767. */
#define RECURRENT_LSTM_S8_MVE_SIGMOID(x, a, b)                                                                         \
    RECURRENT_LSTM_S8_MVE_TANH(x, a, b)                                                                                \
    "vrhadd.s16 " x ", " x ", q6\n"

static void recurrent_lstm_s8_mve_units(const ge_recurrent_params *p, const int16_t *arguments, const int16_t *lines,
                                        int32_t *cells, int8_t *hidden, int32_t units) {
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
                     RECURRENT_LSTM_S8_MVE_SIGMOID("q0", "q2", "q3")
                     RECURRENT_LSTM_S8_MVE_TANH("q1", "q2", "q3")
                     "vmullb.s16 q2, q0, q1\n"
                     "vmullt.s16 q1, q0, q1\n"
                     "vldrh.u16 q0, [%[arguments], #-32]\n"
                     "vshr.s32 q2, q2, #6\n"
                     "vshr.s32 q1, q1, #6\n"
                     RECURRENT_LSTM_S8_MVE_SIGMOID("q0", "q3", "q7")
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
                     RECURRENT_LSTM_S8_MVE_TANH("q0", "q2", "q3")
                     RECURRENT_LSTM_S8_MVE_SIGMOID("q1", "q2", "q3")
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
                     : [slopes] "r"(lines), [starts] "r"(lines + 1024), [one] "r"(1), [multiplier] "r"(p->multiplier_h),
                       [zero] "r"(p->zero_point), [eights] "r"(units / 8)
                     : "r4", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory");
}

/* clang-format on */

/* Converts arguments in steps of 2^exponent to int16. */
static void recurrent_lstm_s8_mve_shift(int16_t *arguments, int32_t exponent, int32_t count) {
    for (int32_t i = 0; exponent != 0 && i < count; i += 8) {
        vstrhq_s16(arguments + i, vqshlq_r_s16(vldrhq_s16(arguments + i), exponent));
    }
}

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
                     : [eights] "r"(units / 8), [zero] "r"(p->c0_zero), [left] "r"(31 - p->c0_shift),
                       [multiplier] "r"(p->c0_multiplier)
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
                     : [eights] "r"((count + 7) / 8), [zero] "r"(p->cell_zero), [right] "r"(32 - p->cell_shift),
                       [multiplier] "r"(p->cell_multiplier)
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
            recurrent_lstm_s8_mve_shift(arguments, p->exponent, 4 * units);
            recurrent_lstm_s8_mve_units(p, arguments, lines, cells, hidden, units);
            if (p->result % 3 == 0) {
                ge_mve_copy(to + time * p->y_step, hidden, p->units);
            }
        }
        recurrent_lstm_s8_mve_last(p, cells, hidden, length, to,
                                   (int8_t *)ge_row(out, 0) + recurrent_lstm_s8_mve_cells(p) + b * p->units);
    }
}
