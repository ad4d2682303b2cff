/* Adds up the columns of each row of int8 [H, W, C] to int16, in portable C. */
#include "ge.h"
#include "ge_params.h"

static void ge_row_sums_s8(const ge_row_sums_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                           int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row = (const int8_t *)ge_row(x, y);
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t c = 0; c < p->channels; c++) {
            int32_t sum = -p->columns * p->zero;
            for (int32_t i = 0; i < p->columns; i++) {
                sum += row[i * p->channels + c];
            }
            o[c] = (int16_t)sum;
        }
    }
}
