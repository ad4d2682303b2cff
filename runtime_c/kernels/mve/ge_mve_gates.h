/* Products and functions of gates for the Helium kernels of recurrent layers.
 *
 * Eight rows of one gate are multiplied at a time, first those of units 0 2 4 6, then those of 1 3 5 7. Up to 64 inputs
 * stay in q4-q7, so 16 products of a row take a load and a VMLADAVA; longer vectors are read again for every four rows.
 * For each eight rows the stream holds their weights, four rows after the other four and 16 of each row in turn, then
 * eight start values, which are 0 and absent where products are added to others, and eight multipliers. Sums are below
 * 2^23: where multipliers are below 2^24, VQRDMULH by 2^7 times the multiplier is the law's rounding; where they are not
 * (`coarse`), it is VRMULH of 2^8 times the sum.
 * `lines` holds the slopes and start values of the tables in the order of an unsigned index: start +
 * VMULH(slope, 32 f + 1) equals the floor of the law.
 */
#ifndef GE_MVE_GATES_H
#define GE_MVE_GATES_H

#include <arm_mve.h>

#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

/* clang-format off */

#define GE_MVE_GATES_SIXTEEN(multiply, q)                                                                              \
    "vldrb.8 q0, [%[stream]], #16\n"                                                                                   \
    multiply " r0, q0, " q "\n"                                                                                        \
    "vldrb.8 q1, [%[stream]], #16\n"                                                                                   \
    multiply " r2, q1, " q "\n"                                                                                        \
    "vldrb.8 q0, [%[stream]], #16\n"                                                                                   \
    multiply " r4, q0, " q "\n"                                                                                        \
    "vldrb.8 q1, [%[stream]], #16\n"                                                                                   \
    multiply " r6, q1, " q "\n"

/* Moves the sums of four rows to a vector. */
#define GE_MVE_GATES_SUMS(q)                                                                                           \
    "vmov " q "[2], " q "[0], r0, r4\n"                                                                                \
    "vmov " q "[3], " q "[1], r2, r6\n"

#define GE_MVE_GATES_SCALED(q)                                                                                         \
    "vldrw.u32 q0, [%[stream]], #16\n"                                                                                 \
    ".if %c[coarse]\n"                                                                                                 \
    "vshl.i32 " q ", " q ", #8\n"                                                                                      \
    "vrmulh.s32 " q ", " q ", q0\n"                                                                                    \
    ".else\n"                                                                                                          \
    "vqrdmulh.s32 " q ", " q ", q0\n"                                                                                  \
    ".endif\n"

/* Requantizes the sums of eight rows in q2 q3 to int16: stores them after adding their start values, or adds them to
 * those at `to`. */
#define GE_MVE_GATES_STORE                                                                                             \
    "vldrw.u32 q0, [%[stream]], #16\n"                                                                                 \
    "vadd.i32 q2, q2, q0\n"                                                                                            \
    "vldrw.u32 q1, [%[stream]], #16\n"                                                                                 \
    "vadd.i32 q3, q3, q1\n"                                                                                            \
    GE_MVE_GATES_SCALED("q2")                                                                                          \
    GE_MVE_GATES_SCALED("q3")                                                                                          \
    "vqmovnb.s32 q2, q2\n"                                                                                             \
    "vqmovnt.s32 q2, q3\n"                                                                                             \
    "vstrh.16 q2, [%[to]], #16\n"

#define GE_MVE_GATES_ADD                                                                                               \
    GE_MVE_GATES_SCALED("q2")                                                                                          \
    GE_MVE_GATES_SCALED("q3")                                                                                          \
    "vldrh.u16 q0, [%[to]]\n"                                                                                          \
    "vmovlb.s16 q1, q0\n"                                                                                              \
    "vmovlt.s16 q0, q0\n"                                                                                              \
    "vadd.i32 q2, q2, q1\n"                                                                                            \
    "vadd.i32 q3, q3, q0\n"                                                                                            \
    "vqmovnb.s32 q2, q2\n"                                                                                             \
    "vqmovnt.s32 q2, q3\n"                                                                                             \
    "vstrh.16 q2, [%[to]], #16\n"

/* Computes all rows for a vector of at most 64 elements, whose first 16 are in q4; `products` adds the others. */
#define GE_MVE_GATES_ROWS(products, end, coarse_)                                                                      \
    __asm__ volatile("vldrb.8 q4, [%[x]]\n"                                                                            \
                     "vldrb.8 q5, [%[x], #16]\n"                                                                       \
                     "vldrb.8 q6, [%[x], #32]\n"                                                                       \
                     "vldrb.8 q7, [%[x], #48]\n"                                                                       \
                     "dls lr, %[eights]\n"                                                                             \
                     "1:\n"                                                                                            \
                     GE_MVE_GATES_SIXTEEN("vmladav.s8", "q4") products                                                 \
                     GE_MVE_GATES_SUMS("q2")                                                                           \
                     GE_MVE_GATES_SIXTEEN("vmladav.s8", "q4") products                                                 \
                     GE_MVE_GATES_SUMS("q3") end                                                                       \
                     "le lr, 1b\n"                                                                                     \
                     : [stream] "+&r"(stream), [to] "+&r"(to)                                                          \
                     : [x] "r"(x), [eights] "r"(eights), [coarse] "i"(coarse_)                                         \
                     : "r0", "r2", "r4", "r6", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory")

#define GE_MVE_GATES_TWO GE_MVE_GATES_SIXTEEN("vmladava.s8", "q5")
#define GE_MVE_GATES_THREE GE_MVE_GATES_TWO GE_MVE_GATES_SIXTEEN("vmladava.s8", "q6")
#define GE_MVE_GATES_FOUR GE_MVE_GATES_THREE GE_MVE_GATES_SIXTEEN("vmladava.s8", "q7")

#define GE_MVE_GATES_LONG_FOUR(label, q)                                                                               \
    "mov %[from], %[x]\n"                                                                                              \
    "movs r0, #0\n"                                                                                                    \
    "movs r2, #0\n"                                                                                                    \
    "movs r4, #0\n"                                                                                                    \
    "movs r6, #0\n"                                                                                                    \
    "dls lr, %[blocks]\n"                                                                                              \
    label ":\n"                                                                                                        \
    "vldrb.8 q4, [%[from]], #16\n" GE_MVE_GATES_SIXTEEN("vmladava.s8", "q4")                                           \
    "le lr, " label "b\n"                                                                                              \
    GE_MVE_GATES_SUMS(q)

/* Computes rows, eight at a time, for a vector of any multiple of 16 elements. */
#define GE_MVE_GATES_LONG(end, coarse_)                                                                                \
    for (; eights > 0; eights--) {                                                                                     \
        const int8_t *from;                                                                                            \
        __asm__ volatile(GE_MVE_GATES_LONG_FOUR("1", "q2")                                                             \
                         GE_MVE_GATES_LONG_FOUR("2", "q3") end                                                         \
                         : [stream] "+&r"(stream), [to] "+&r"(to), [from] "=&r"(from)                                  \
                         : [x] "r"(x), [blocks] "r"(blocks), [coarse] "i"(coarse_)                                     \
                         : "r0", "r2", "r4", "r6", "lr", "q0", "q1", "q2", "q3", "q4", "cc", "memory");                \
    }

/* A function that multiplies a vector by all rows; it returns the rest of the stream. */
#define GE_MVE_GATES_PRODUCT(function, end, coarse_)                                                                   \
    static const int8_t *function(const int8_t *x, int32_t blocks, const int8_t *stream, int16_t *to, int32_t eights) {\
        switch (blocks) {                                                                                              \
        case 1:                                                                                                        \
            GE_MVE_GATES_ROWS("", end, coarse_);                                                                       \
            break;                                                                                                     \
        case 2:                                                                                                        \
            GE_MVE_GATES_ROWS(GE_MVE_GATES_TWO, end, coarse_);                                                         \
            break;                                                                                                     \
        case 3:                                                                                                        \
            GE_MVE_GATES_ROWS(GE_MVE_GATES_THREE, end, coarse_);                                                       \
            break;                                                                                                     \
        case 4:                                                                                                        \
            GE_MVE_GATES_ROWS(GE_MVE_GATES_FOUR, end, coarse_);                                                        \
            break;                                                                                                     \
        default:                                                                                                       \
            GE_MVE_GATES_LONG(end, coarse_)                                                                            \
            break;                                                                                                     \
        }                                                                                                              \
        return stream;                                                                                                 \
    }

/* x = tanh(x); a, b: other vectors; q4 63, q5 32. */
#define GE_MVE_GATES_TANH(x, a, b)                                                                                     \
    "vshr.u16 " a ", " x ", #6\n"                                                                                      \
    "vldrh.u16 " b ", [%[slopes], " a ", uxtw #1]\n"                                                                   \
    "vand " x ", " x ", q4\n"                                                                                          \
    "vmlas.s16 " x ", q5, %[one]\n"                                                                                    \
    "vmulh.s16 " x ", " b ", " x "\n"                                                                                  \
    "vldrh.u16 " b ", [%[starts], " a ", uxtw #1]\n"                                                                   \
    "vadd.i16 " x ", " x ", " b "\n"

/* The same for the sigmoid; q6 32767. */
#define GE_MVE_GATES_SIGMOID(x, a, b)                                                                                  \
    GE_MVE_GATES_TANH(x, a, b)                                                                                         \
    "vrhadd.s16 " x ", " x ", q6\n"

/* clang-format on */

/* Converts arguments in steps of 2^exponent to int16. */
static inline void ge_mve_gates_shift(int16_t *arguments, int32_t exponent, int32_t count) {
    for (int32_t i = 0; exponent != 0 && i < count; i += 8) {
        vstrhq_s16(arguments + i, vqshlq_r_s16(vldrhq_s16(arguments + i), exponent));
    }
}

#endif
