/* The maximum of each channel of int8 [H, W, C] over rows and columns, row after row, in portable C. */
#include "ge.h"
#include "ge_params.h"

/* All output rows are the same memory. Row 0 starts the maximum, and rows come in order. */
static void ge_max_rows_s8(const ge_rows_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                           int32_t last_row, void *scratch) {
    int8_t *largest = (int8_t *)ge_row(out, 0);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row = (const int8_t *)ge_row(x, y);
        for (int32_t c = 0; c < p->channels; c++) {
            int8_t top = y == 0 ? INT8_MIN : largest[c];
            for (int32_t i = 0; i < p->columns; i++) {
                const int8_t value = row[i * p->channels + c];
                top = value > top ? value : top;
            }
            largest[c] = top;
        }
    }
}
