/* Sums of the channels of int8 [H, W, C] over rows and columns, accumulated row by row: Helium. */
#include "ge.h"
#include "ge_mve_pool.h"
#include "ge_params.h"

/* All output rows are the same memory: row 0 starts the sums, and rows come in order. */
static void ge_sum_rows_s8_mve(const ge_rows_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                               int32_t last_row, void *scratch) {
    int32_t *sum = (int32_t *)ge_row(out, 0);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *const row = (const int8_t *)ge_row(x, y);
        if (y == 0) {
            ge_mve_fill((int8_t *)sum, 0, 4 * p->channels);
        }
        ge_mve_add_rows(&row, 1, 0, p->columns, p->channels, p->channels, sum);
    }
}
