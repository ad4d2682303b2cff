/* Sums and products of lines of two operands of int16 or float32 for Helium, four elements at a time.
 *
 * An operand that is one element for the whole line is a vector in memory that is read repeatedly: its step is 0.
 *
 * Sum of int16: each multiplier is h * 2^15 + l, so a * l + b * l and each a * h fit 32 bits; the low parts, shifted by
 * 15, are added to b * h, and VHADD adds a * h without overflow and halves. So y = (that + 2^(shift-17)) >> (shift -
 * 16), exactly. Product of int16: VMULH, then a rounding shift by shift - 32, exactly.
 *
 *   r0 a, r1 b, r2 out, r3 r4 bytes from vector to vector of a and b; r5 r6 high and r8 r9 low parts of the multipliers; r10 shift;
 *   q4 lowest and q5 highest output, q6 multiplier of a product */
#ifndef GE_MVE_PAIR_H
#define GE_MVE_PAIR_H

#include "ge.h"
#include "ge_float.h"
#include "ge_mve.h"

/* Job of a line, in the order in which the loops load it. */
typedef struct {
    const void *a, *b;
    void *out;
    int32_t step_a, step_b;
    int32_t high_a, high_b, low_a, low_b; /* high_a is the multiplier of a product */
    int32_t shift;                        /* amount for VRSHL: negative */
    int32_t zero_point;                   /* 40 */
    int32_t lo, hi;                       /* 44, 48: bits of floats */
    int32_t count;                        /* 52 */
} ge_mve_pair;

/* clang-format off */

#define GE_MVE_PAIR_BEGIN \
    "mov r12, %[job]\n" \
    "ldm r12, {r0, r1, r2, r3, r4, r5, r6, r8, r9, r10}\n" \
    "ldr lr, [r12, #44]\n" \
    "vdup.32 q4, lr\n" \
    "ldr lr, [r12, #48]\n" \
    "vdup.32 q5, lr\n" \
    "vdup.32 q6, r5\n" \
    "ldr lr, [r12, #52]\n" \
    "ldr r12, [r12, #40]\n" \
    "wlstp.32 lr, lr, 2f\n" \
    "1:\n"

#define GE_MVE_PAIR_HALVES \
    "vldrh.s32 q0, [r0]\n" \
    "vldrh.s32 q1, [r1]\n" \
    "add r0, r0, r3\n" \
    "add r1, r1, r4\n"

#define GE_MVE_PAIR_HALVES_OUT \
    "vadd.i32 q2, q2, r12\n" \
    "vmax.s32 q2, q2, q4\n" \
    "vmin.s32 q2, q2, q5\n" \
    "vstrh.32 q2, [r2], #8\n" \
    "letp lr, 1b\n" \
    "2:\n"

#define GE_MVE_PAIR_ADD_S16 \
    GE_MVE_PAIR_HALVES \
    "vmul.i32 q3, q0, r8\n" \
    "vmul.i32 q2, q1, r6\n" \
    "vmla.s32 q3, q1, r9\n" \
    "vmul.i32 q0, q0, r5\n" \
    "vshr.s32 q3, q3, #15\n" \
    "vadd.i32 q2, q2, q3\n" \
    "vhadd.s32 q2, q2, q0\n" \
    "vrshl.s32 q2, r10\n" \
    GE_MVE_PAIR_HALVES_OUT

#define GE_MVE_PAIR_MUL_S16 \
    GE_MVE_PAIR_HALVES \
    "vmul.i32 q2, q0, q1\n" \
    "vmulh.s32 q2, q2, q6\n" \
    "vrshl.s32 q2, r10\n" \
    GE_MVE_PAIR_HALVES_OUT

#define GE_MVE_PAIR_FLOATS(operation) \
    "vldrw.u32 q0, [r0]\n" \
    "vldrw.u32 q1, [r1]\n" \
    "add r0, r0, r3\n" \
    "add r1, r1, r4\n" \
    operation " q2, q0, q1\n" \
    "vcmp.f32 lt, q2, r5\n" \
    "vpsel q2, q4, q2\n" \
    "vcmp.f32 gt, q2, r6\n" \
    "vpsel q2, q5, q2\n" \
    "vstrw.32 q2, [r2], #16\n" \
    "letp lr, 1b\n" \
    "2:\n"

#define GE_MVE_PAIR_ADD_F32 GE_MVE_PAIR_FLOATS("vadd.f32")
#define GE_MVE_PAIR_SUB_F32 GE_MVE_PAIR_FLOATS("vsub.f32")
#define GE_MVE_PAIR_MUL_F32 GE_MVE_PAIR_FLOATS("vmul.f32")

#define GE_MVE_PAIR_RUN(at, loop) \
    __asm__ volatile(GE_MVE_PAIR_BEGIN loop \
                     : \
                     : [job] "r"(at) \
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", \
                       "q5", "q6", "cc", "memory")

/* clang-format on */

#endif
