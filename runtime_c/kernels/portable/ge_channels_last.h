/* Transposes planes [C, H, W] to pixels [H, W, C]: the code that the portable kernels of channels_last_s8 share. */
#ifndef GE_CHANNELS_LAST_H
#define GE_CHANNELS_LAST_H

#include "ge.h"
#include "ge_params.h"

/* Copies every `from_step`-th byte to every `to_step`-th. */
static inline void ge_channels_last_run(const int8_t *from, int32_t from_step, int8_t *to, int32_t to_step,
                                        int32_t count) {
    for (; count >= 4; count -= 4) {
        const int8_t a = from[0];
        const int8_t b = from[from_step];
        const int8_t c = from[2 * from_step];
        const int8_t d = from[3 * from_step];
        from += 4 * from_step;
        to[0] = a;
        to[to_step] = b;
        to[2 * to_step] = c;
        to[3 * to_step] = d;
        to += 4 * to_step;
    }
    for (; count > 0; count--) {
        *to = *from;
        from += from_step;
        to += to_step;
    }
}

/* Writes rows first_row..last_row-1 of pixels; `out` does not overlap `x`. Runs lie along the columns, or along the
 * channels if these are many more and the planes are contiguous. */
static inline void ge_channels_last_rows(const ge_channels_last_params *p, const ge_rows *x, const ge_rows *out,
                                         int32_t first_row, int32_t last_row) {
    const int32_t along_channels = p->channels > 4 * p->columns && x->slots == NULL;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const to = (int8_t *)ge_row(out, y);
        for (int32_t c = 0; !along_channels && c < p->channels; c++) {
            ge_channels_last_run((const int8_t *)ge_row(x, c * p->rows + y), 1, to + c, p->channels, p->columns);
        }
        for (int32_t w = 0; along_channels && w < p->columns; w++) {
            ge_channels_last_run((const int8_t *)ge_row(x, y) + w, p->rows * x->stride, to + w * p->channels, 1,
                                 p->channels);
        }
    }
}

#endif
