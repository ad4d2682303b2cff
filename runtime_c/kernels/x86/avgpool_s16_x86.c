/* Mean of each window of int16 [H, W, C]: one source for every level of x86-64. Divisions are multiplications: there is
 * one multiplier for each possible number of rows and columns that count. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_ints.h"
#include "ge_x86_ints_mean.h"

static GE_X86_FN void ge_avgpool_s16_x86(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier,
                                         const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const ge_x86_wide_law law = ge_x86_wide_law_of(p->shift, p->out_zero_point, p->lo, p->hi);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const ge_x86_mean_window w = GE_X86_MEAN_WINDOW(p, x, y, ox, p->in_zero_point);
            const int32_t down = ge_x86_mean_taps(w.top, p->kernel_h, p->dilation_h, p->count_top, p->count_bottom);
            const int32_t across = ge_x86_mean_taps(w.left, p->kernel_w, p->dilation_w, p->count_left, p->count_right);
            const int32_t place = (down - p->min_rows) * p->table_columns + across - p->min_columns;
            ge_x86_mean(&w, multiplier[place], &law, (uint8_t *)o, 2);
            o += p->channels;
        }
    }
}
