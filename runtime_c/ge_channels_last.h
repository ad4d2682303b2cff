/* Planes [C, H, W] become pixels [H, W, C]: what the portable kernels of channels_last_s8 share. */
#ifndef GE_CHANNELS_LAST_H
#define GE_CHANNELS_LAST_H

#include "ge.h"
#include "ge_params.h"

/* `count` elements to every `step`-th byte. */
static inline void ge_channels_last_run(const int8_t *from, int8_t *to, int32_t count, int32_t step) {
    for (; count >= 4; count -= 4) {
        const int8_t a = from[0];
        const int8_t b = from[1];
        const int8_t c = from[2];
        const int8_t d = from[3];
        from += 4;
        to[0] = a;
        to[step] = b;
        to[2 * step] = c;
        to[3 * step] = d;
        to += 4 * step;
    }
    for (; count > 0; count--) {
        *to = *from++;
        to += step;
    }
}

/* Some rows of pixels, elsewhere than the planes. */
static inline void ge_channels_last_rows(const ge_channels_last_params *p, const ge_rows *x, const ge_rows *out,
                                         int32_t first_row, int32_t last_row) {
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const to = (int8_t *)ge_row(out, y);
        for (int32_t c = 0; c < p->channels; c++) {
            ge_channels_last_run((const int8_t *)ge_row(x, c * p->rows + y), to + c, p->columns, p->channels);
        }
    }
}

#endif
