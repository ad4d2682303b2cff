/* Adds rows to the first sum of a queue, in portable C. */
#include "element_s8.h"
#include "ge.h"
#include "ge_params.h"

static void ge_delayed_sum(const ge_delayed_params *p, const ge_rows *queue, const ge_rows *more, const ge_rows *out,
                           int32_t first_row, int32_t last_row, void *scratch) {
    const int16_t *before = (const int16_t *)ge_row(queue, 0);
    int32_t *sum = (int32_t *)ge_row(out, 0);
    (void)first_row;
    (void)last_row;
    (void)scratch;
    for (int32_t c = 0; c < p->channels; c++) {
        sum[c] = before[c] - p->rows * p->zero;
    }
    for (int32_t i = 0; i < p->rows; i++) {
        const GE_ELEMENT *row = (const GE_ELEMENT *)ge_row(more, i);
        for (int32_t c = 0; c < p->channels; c++) {
            sum[c] += row[c];
        }
    }
}
