/* Copies and requantizes a block of int8 that has strides in input and output: the body of copy_s8 and copy_into_s8. */
#ifndef GE_COPY_H
#define GE_COPY_H

#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"
#include "ge_runs.h"

/* Copies the innermost dimension; x and y are its first elements. */
static inline void ge_copy_run(const ge_copy_params *p, const int8_t *x, int8_t *y) {
    const int32_t count = p->dims[4];
    const int32_t step_x = p->in_strides[4];
    const int32_t step_y = p->out_strides[4];
    if (p->shift != 0) {
        for (int32_t i = 0; i < count; i++) {
            y[i * step_y] =
                ge_requantize_pair(x[i * step_x], 0, p->multiplier, 0, p->offset, p->shift, INT8_MIN, INT8_MAX);
        }
    } else if (step_x == 1 && step_y == 1) {
        memcpy(y, x, (size_t)count);
    } else {
        for (int32_t i = 0; i < count; i++) {
            y[i * step_y] = x[i * step_x];
        }
    }
}

/* Copies the whole block; x and y are the first elements of the tensors. */
static inline void ge_copy_block(const ge_copy_params *p, const int8_t *x, int8_t *y) {
    const int32_t *const s = p->in_strides;
    const int32_t *const t = p->out_strides;
    if (ge_runs_one_piece(p)) {
        memcpy(y + p->out_offset, x + p->in_offset, (size_t)p->dims[4]);
        return;
    }
    x += p->in_offset;
    y += p->out_offset;
    for (int32_t i = 0; i < p->dims[0]; i++) {
        for (int32_t j = 0; j < p->dims[1]; j++) {
            for (int32_t k = 0; k < p->dims[2]; k++) {
                for (int32_t l = 0; l < p->dims[3]; l++) {
                    ge_copy_run(p, x + i * s[0] + j * s[1] + k * s[2] + l * s[3],
                                y + i * t[0] + j * t[1] + k * t[2] + l * t[3]);
                }
            }
        }
    }
}

#endif
