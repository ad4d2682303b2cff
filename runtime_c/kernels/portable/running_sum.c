/* Adds new rows to a sum and subtracts old ones, in portable C. */
#include "element_s8.h"
#include "ge.h"
#include "ge_params.h"

static void ge_running_sum(const ge_running_params *p, const ge_rows *old, const ge_rows *more, const ge_rows *less,
                           const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t *before = (const int32_t *)ge_row(old, 0);
    int32_t *sum = (int32_t *)ge_row(out, 0);
    (void)first_row;
    (void)last_row;
    (void)scratch;
    for (int32_t c = 0; c < p->channels; c++) {
        sum[c] = before[c] - (p->more_count - p->less_count) * p->zero;
    }
    for (int32_t i = 0; i < p->more_count; i++) {
        const GE_ELEMENT *row = (const GE_ELEMENT *)ge_row(more, p->more_first + i);
        for (int32_t c = 0; c < p->channels; c++) {
            sum[c] += row[c];
        }
    }
    for (int32_t i = 0; i < p->less_count; i++) {
        const GE_ELEMENT *row = (const GE_ELEMENT *)ge_row(less, p->less_first + i);
        for (int32_t c = 0; c < p->channels; c++) {
            sum[c] -= row[c];
        }
    }
}
