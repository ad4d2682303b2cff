/* Copies a block of int8 with strides on both sides and requantizes it on the way: the body of the Helium copies.
 *
 * Vectors lie along a run. Where a run is not contiguous on both sides, eight bytes at a time (four when they are
 * requantized) are gathered and scattered: 5 instructions.
 */
#ifndef GE_MVE_BLOCK_H
#define GE_MVE_BLOCK_H

#include "ge.h"
#include "ge_mve_sum.h"
#include "ge_params.h"
#include "ge_runs.h"

/* Copies requantized bytes with any steps. Not inlined: together with the registers that a loop around it keeps, gcc
 * -O3 would run out of registers. */
__attribute__((unused, noinline)) static void ge_mve_rescale(const ge_copy_params *p, const int8_t *x, int32_t step_x,
                                                             int8_t *y, int32_t step_y, int32_t count) {
    __asm__ volatile("mov r4, #0\n"
                     "vidup.u32 q0, r4, #1\n"
                     "vmul.i32 q1, q0, %[step_x]\n"
                     "vmul.i32 q2, q0, %[step_y]\n"
                     "vdup.32 q3, %[multiplier]\n"
                     "lsl %[step_x], %[step_x], #2\n"
                     "lsl %[step_y], %[step_y], #2\n"
                     "wlstp.32 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.s32 q0, [%[x], q1]\n"
                     "vmlas.s32 q0, q3, %[offset]\n"
                     "vshl.s32 q0, %[shift]\n"
                     "vqmovnb.s32 q0, q0\n"
                     "vqmovnb.s16 q0, q0\n"
                     "vstrb.32 q0, [%[y], q2]\n"
                     "add %[x], %[x], %[step_x]\n"
                     "add %[y], %[y], %[step_y]\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [x] "+&r"(x), [y] "+&r"(y), [step_x] "+&r"(step_x), [step_y] "+&r"(step_y)
                     : [count] "r"(count), [shift] "r"(-p->shift), [multiplier] "r"((int32_t)p->multiplier),
                       [offset] "r"((int32_t)p->offset)
                     : "r4", "lr", "q0", "q1", "q2", "q3", "memory");
}

/* Copies the elements along dimension d; x and y point to the first of them. */
static inline void ge_mve_block_run(const ge_copy_params *p, int32_t d, const int8_t *x, int8_t *y) {
    const int32_t count = p->dims[d];
    const int32_t step_x = p->in_strides[d];
    const int32_t step_y = p->out_strides[d];
    const int32_t far_x = step_x < 0 ? -step_x : step_x;
    const int32_t far_y = step_y < 0 ? -step_y : step_y;
    const ge_mve_sum law = {p->multiplier, INT8_MIN, INT8_MAX, 0, p->offset, p->shift};
    if (p->shift != 0 && step_x == 1 && step_y == 1) {
        ge_mve_sum_all(&law, x, p->multiplier, p->offset, y, count);
    } else if (p->shift != 0) {
        ge_mve_rescale(p, x, step_x, y, step_y, count);
    } else if (step_x == 1 && step_y == 1) {
        ge_mve_copy(y, x, count);
    } else if (far_x <= GE_MVE_MOVE_STEP && far_y <= GE_MVE_MOVE_STEP) {
        ge_mve_move(x, step_x, y, step_y, count);
    } else {
        for (int32_t i = 0; i < count; i++) {
            y[i * step_y] = x[i * step_x];
        }
    }
}

/* Copies the whole block; x and y point to the first elements of the tensors. */
static inline void ge_mve_block(const ge_copy_params *p, const int8_t *x, int8_t *y) {
    if (ge_runs_one_piece(p)) {
        ge_mve_copy(y + p->out_offset, x + p->in_offset, p->dims[4]);
        return;
    }
    const int32_t along = ge_runs_dim(p);
    for (ge_runs runs = ge_runs_of(p, x, y); runs.more; ge_runs_step(&runs, p, along)) {
        ge_mve_block_run(p, along, runs.x, runs.y);
    }
}

#endif
