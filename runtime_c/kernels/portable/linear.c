/* Rescales to another type, clips, or bends at zero, with one multiplier below the zero point and one above it, in
 * portable C. */
#include "ge.h"
#include "ge_params.h"
#include "ge_wide.h"

#define LINEAR_FROM int16_t
#define LINEAR_TO int16_t

static void ge_linear(const ge_linear_s16_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                      int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const LINEAR_FROM *row = (const LINEAR_FROM *)ge_row(x, y);
        LINEAR_TO *o = (LINEAR_TO *)ge_row(out, y);
        for (int32_t i = 0; i < p->row; i++) {
            const int32_t real = row[i] - p->in_zero_point;
            const int32_t multiplier = real < 0 ? p->multiplier_below : p->multiplier_above;
            o[i] = (LINEAR_TO)ge_requantize_wide(real, multiplier, p->shift, p->out_zero_point, p->lo, p->hi);
        }
    }
}
