/* Turns int32 sums over a whole image into int8 means, in portable C. */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"

static void ge_mean_s32_s8(const ge_mean_params *p, const ge_rows *sum, const int32_t *multiplier, const ge_rows *out,
                           int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t *total = (const int32_t *)ge_row(sum, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t c = 0; c < p->channels; c++) {
            o[c] = ge_requantize(total[c] - p->zero, multiplier, 0, p->shift, p->out_zero_point, p->lo, p->hi);
        }
    }
}
