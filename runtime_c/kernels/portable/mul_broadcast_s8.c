/* Product of two int8 tensors that broadcast to one shape, in portable C. */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"

/* Computes the innermost dimension. */
static void mul_broadcast_s8_line(const ge_mul_broadcast_params *p, const int8_t *a, const int8_t *b,
                                  const int32_t *multiplier, int8_t *o) {
    for (int32_t i = 0; i < p->dims[3]; i++) {
        const int32_t acc = (*a - p->zero_point_a) * (*b - p->zero_point_b);
        o[i] = ge_requantize(acc, multiplier, 0, p->shift, p->out_zero_point, p->lo, p->hi);
        a += p->strides_a[3];
        b += p->strides_b[3];
    }
}

/* Computes one row. The output is dense, so it is written in the order of the loops. */
static void mul_broadcast_s8_row(const ge_mul_broadcast_params *p, const int8_t *a, const int8_t *b,
                                 const int32_t *multiplier, int8_t *o) {
    const int32_t *sa = p->strides_a;
    const int32_t *sb = p->strides_b;
    for (int32_t i = 0; i < p->dims[0]; i++) {
        for (int32_t j = 0; j < p->dims[1]; j++) {
            for (int32_t k = 0; k < p->dims[2]; k++) {
                const int8_t *line_a = a + i * sa[0] + j * sa[1] + k * sa[2];
                const int8_t *line_b = b + i * sb[0] + j * sb[1] + k * sb[2];
                mul_broadcast_s8_line(p, line_a, line_b, multiplier, o);
                o += p->dims[3];
            }
        }
    }
}

static void ge_mul_broadcast_s8(const ge_mul_broadcast_params *p, const ge_rows *a, const ge_rows *b,
                                const int32_t *multiplier, const ge_rows *out, int32_t first_row, int32_t last_row,
                                void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row_a = (const int8_t *)ge_row(a, y * p->row_step_a);
        const int8_t *row_b = (const int8_t *)ge_row(b, y * p->row_step_b);
        mul_broadcast_s8_row(p, row_a, row_b, multiplier, (int8_t *)ge_row(out, y));
    }
}
