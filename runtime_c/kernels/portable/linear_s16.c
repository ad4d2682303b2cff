/* int16 to int16: a rescale, a clip, or a kink at zero: one multiplier below the zero point and one above it: the portable truth. */
#include "ge.h"
#include "ge_params.h"
#include "ge_wide.h"

static void ge_linear_s16(const ge_linear_s16_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                          int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int16_t *row = (const int16_t *)ge_row(x, y);
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t i = 0; i < p->row; i++) {
            const int32_t real = row[i] - p->in_zero_point;
            const int32_t multiplier = real < 0 ? p->multiplier_below : p->multiplier_above;
            o[i] = (int16_t)ge_requantize_wide(real, multiplier, p->shift, p->out_zero_point, p->lo, p->hi);
        }
    }
}
