/* The sum of each channel of int8 [H, W, C] over rows and columns, row after row, in portable C. */
#include "ge.h"
#include "ge_params.h"

/* All output rows are the same memory. Row 0 starts the sums, and rows come in order. */
static void ge_sum_rows_s8(const ge_rows_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                           int32_t last_row, void *scratch) {
    int32_t *sum = (int32_t *)ge_row(out, 0);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row = (const int8_t *)ge_row(x, y);
        for (int32_t c = 0; c < p->channels; c++) {
            int32_t total = y == 0 ? 0 : sum[c];
            for (int32_t i = 0; i < p->columns; i++) {
                total += row[i * p->channels + c];
            }
            sum[c] = total;
        }
    }
}
