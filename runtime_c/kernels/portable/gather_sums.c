/* Moves a queue of sums by one, and adds new rows to those that take them up, in portable C. */
#include "element_s8.h"
#include "ge.h"
#include "ge_params.h"

static void ge_gather_sums(const ge_gather_params *p, const ge_rows *old, const ge_rows *last, const ge_rows *more,
                           const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t channels = p->channels;
    int16_t *sums = (int16_t *)ge_row(out, 0);
    int32_t left = p->period; /* sums up to the next one that takes up rows */
    int32_t first = -p->most; /* the first of the new rows that it takes up */
    (void)old;
    (void)first_row;
    (void)last_row;
    (void)scratch;
    for (int32_t i = 0; i < p->waiting; i++) {
        const int16_t *from = i + 1 < p->waiting ? sums + channels : (const int16_t *)ge_row(last, 0);
        int32_t row = p->added;
        if (--left == 0) {
            left = p->period;
            first += p->added;
            row = first > 0 ? first : 0;
        }
        if (row >= p->added) {
            memmove(sums, from, (size_t)channels * sizeof *sums);
        }
        for (; row < p->added; row++, from = sums) {
            const GE_ELEMENT *x = (const GE_ELEMENT *)ge_row(more, row);
            for (int32_t c = 0; c < channels; c++) {
                sums[c] = (int16_t)(from[c] + x[c] - p->zero);
            }
        }
        sums += channels;
    }
}
