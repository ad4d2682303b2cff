/* Nearest elements of int8 [H, W, C]: Helium, 16 channels of a pixel at a time. Repeated rows are copied. */
#include <arm_mve.h>

#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

/* Copies up to 16 channels of every pixel of an output row. */
static void resize_nearest_s8_mve_channels(const int8_t *x, const int32_t *at, int32_t columns, int32_t channels,
                                           mve_pred16_t some, int8_t *o) {
    for (int32_t i = 0; i < columns; i++) {
        vstrbq_p_s8(o, vldrbq_z_s8(x + at[i], some), some);
        o += channels;
    }
}

static void ge_resize_nearest_s8_mve(const ge_resize_params *p, const ge_rows *x, const int32_t *row_at,
                                     const int16_t *row_weight, const int32_t *column_at, const int16_t *column_weight,
                                     const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)row_weight;
    (void)column_weight;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *const from = (const int8_t *)ge_row(x, row_at[y]);
        int8_t *const o = (int8_t *)ge_row(out, y);
        if (y > first_row && row_at[y] == row_at[y - 1]) {
            ge_mve_copy(o, (const int8_t *)ge_row(out, y - 1), p->out_w * p->channels);
            continue;
        }
        for (int32_t c = 0; c < p->channels; c += 16) {
            const mve_pred16_t some = vctp8q((uint32_t)(p->channels - c));
            resize_nearest_s8_mve_channels(from + c, column_at, p->out_w, p->channels, some, o + c);
        }
    }
}
