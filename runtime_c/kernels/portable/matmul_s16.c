/* Product of two int16 matrices that are both read along their rows, each with its own zero point, in portable C. */
#include "ge.h"
#include "ge_params.h"
#include "ge_wide.h"

static int64_t matmul_s16_dot(const ge_matmul_params *p, const int16_t *a, const int16_t *b) {
    int64_t sum = 0;
    for (int32_t i = 0; i < p->k; i++) {
        sum += (int64_t)(a[i] - p->zero_point_a) * (b[i] - p->zero_point_b);
    }
    return sum;
}

static void ge_matmul_s16(const ge_matmul_params *p, const ge_rows *a, const ge_rows *b, const int32_t *multiplier,
                          const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int16_t *row_a = (const int16_t *)ge_row(a, y * p->row_step_a);
        const int16_t *row_b = (const int16_t *)ge_row(b, y * p->row_step_b);
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t m = 0; m < p->m; m++) {
            for (int32_t n = 0; n < p->n; n++) {
                const int64_t acc = matmul_s16_dot(p, row_a + m * p->k, row_b + n * p->k);
                *o++ = (int16_t)ge_requantize_wide(acc, multiplier[0], p->shift, p->out_zero_point, p->lo, p->hi);
            }
        }
    }
}
