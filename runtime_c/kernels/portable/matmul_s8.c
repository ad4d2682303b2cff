/* Product of two int8 matrices that are both read along their rows, each with its own zero point, in portable C. */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"

static int32_t matmul_s8_dot(const ge_matmul_params *p, const int8_t *a, const int8_t *b) {
    int32_t sum = 0;
    for (int32_t i = 0; i < p->k; i++) {
        sum += (a[i] - p->zero_point_a) * (b[i] - p->zero_point_b);
    }
    return sum;
}

static void ge_matmul_s8(const ge_matmul_params *p, const ge_rows *a, const ge_rows *b, const int32_t *multiplier,
                         const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row_a = (const int8_t *)ge_row(a, y * p->row_step_a);
        const int8_t *row_b = (const int8_t *)ge_row(b, y * p->row_step_b);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t m = 0; m < p->m; m++) {
            for (int32_t n = 0; n < p->n; n++) {
                const int32_t acc = matmul_s8_dot(p, row_a + m * p->k, row_b + n * p->k);
                *o++ = ge_requantize(acc, multiplier, 0, p->shift, p->out_zero_point, p->lo, p->hi);
            }
        }
    }
}
