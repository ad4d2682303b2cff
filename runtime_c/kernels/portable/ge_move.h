/* Copies a block that has strides in input and output without a requantization: the body of copy_as_is and
 * copy_into_as_is. */
#ifndef GE_MOVE_H
#define GE_MOVE_H

#include "ge.h"
#include "ge_params.h"

/* Copies one line of the innermost dimension: elements of `size` bytes, steps in bytes. */
static inline void ge_move_line(const uint8_t *x, uint8_t *y, int32_t count, int32_t step_x, int32_t step_y,
                                size_t size) {
    if (step_x == (int32_t)size && step_y == (int32_t)size) {
        memcpy(y, x, (size_t)count * size);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        memcpy(y + i * step_y, x + i * step_x, size);
    }
}

/* Copies the whole block; x and y are the first bytes of the tensors. */
static inline void ge_move_block(const ge_move_params *p, const uint8_t *x, uint8_t *y, size_t size) {
    const int32_t bytes = (int32_t)size;
    const int32_t *const s = p->in_strides;
    const int32_t *const t = p->out_strides;
    x += p->in_offset * bytes;
    y += p->out_offset * bytes;
    for (int32_t i = 0; i < p->dims[0]; i++) {
        for (int32_t j = 0; j < p->dims[1]; j++) {
            for (int32_t k = 0; k < p->dims[2]; k++) {
                for (int32_t l = 0; l < p->dims[3]; l++) {
                    ge_move_line(x + (i * s[0] + j * s[1] + k * s[2] + l * s[3]) * bytes,
                                 y + (i * t[0] + j * t[1] + k * t[2] + l * t[3]) * bytes, p->dims[4], s[4] * bytes,
                                 t[4] * bytes, size);
                }
            }
        }
    }
}

#endif
