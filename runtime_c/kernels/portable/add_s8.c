/* Sum (or difference) of two int8 tensors of one shape, each with its own scale, in portable C. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

static void ge_add_s8(const ge_add_params *p, const ge_rows *a, const ge_rows *b, const ge_rows *out, int32_t first_row,
                      int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row_a = (const int8_t *)ge_row(a, y);
        const int8_t *row_b = (const int8_t *)ge_row(b, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t i = 0; i < p->row; i++) {
            o[i] = ge_requantize_pair(row_a[i], row_b[i], p->multiplier_a, p->multiplier_b, p->offset, p->shift, p->lo,
                                      p->hi);
        }
    }
}
