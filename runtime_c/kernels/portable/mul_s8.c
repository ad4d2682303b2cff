/* Product of two int8 tensors of one shape, each with its own zero point, in portable C. */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"

static void ge_mul_s8(const ge_mul_params *p, const ge_rows *a, const ge_rows *b, const int32_t *multiplier,
                      const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row_a = (const int8_t *)ge_row(a, y);
        const int8_t *row_b = (const int8_t *)ge_row(b, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t i = 0; i < p->row; i++) {
            const int32_t acc = (row_a[i] - p->zero_point_a) * (row_b[i] - p->zero_point_b);
            o[i] = ge_requantize(acc, multiplier, 0, p->shift, p->out_zero_point, p->lo, p->hi);
        }
    }
}
