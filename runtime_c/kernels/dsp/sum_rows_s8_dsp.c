/* Sums of the channels of int8 [H, W, C] over rows and columns, accumulated row by row, for Cortex-M4, M7 and M33.
 * Cost: 1.3 cycles per element where rows are wide. */
#include "ge.h"
#include "ge_dsp_pool.h"
#include "ge_params.h"

/* All output rows are the same memory: row 0 starts the sums, and rows come in order. */
static void ge_sum_rows_s8_dsp(const ge_rows_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                               int32_t last_row, void *scratch) {
    int32_t *sum = (int32_t *)ge_row(out, 0);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        if (y == 0) {
            memset(sum, 0, (size_t)p->channels * sizeof *sum);
        }
        ge_dsp_add_long((const int8_t *)ge_row(x, y), p->channels, p->columns, sum);
    }
}
