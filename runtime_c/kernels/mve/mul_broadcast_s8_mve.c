/* Product of two int8 tensors that broadcast to one shape, requantized by 2^-32: Helium.
 *
 * Measured, instructions under QEMU: 16x16x96 by 96 numbers 59,372 (2.4 per element).
 */
#include "ge.h"
#include "ge_broadcast.h"
#include "ge_mve_product.h"
#include "ge_params.h"

/* One line along the innermost dimension. */
static void mul_broadcast_s8_mve_line(const ge_mul_broadcast_params *p, const ge_mve_product *law, const int8_t *a,
                                      const int8_t *b, int8_t *o) {
    if (p->strides_a[3] == 0) {
        ge_mve_product_all(law, b, law->zero_point_b, *a - law->zero_point_a, o, p->dims[3]);
    } else if (p->strides_b[3] == 0) {
        ge_mve_product_all(law, a, law->zero_point_a, *b - law->zero_point_b, o, p->dims[3]);
    } else {
        ge_mve_product_each(law, a, b, o, p->dims[3]);
    }
}

static void ge_mul_broadcast_s8_mve(const ge_mul_broadcast_params *p, const ge_rows *a, const ge_rows *b,
                                    const int32_t *multiplier, const ge_rows *out, int32_t first_row, int32_t last_row,
                                    void *scratch) {
    const ge_mve_product law = {multiplier[0], p->lo, p->hi, p->zero_point_a, p->zero_point_b, p->out_zero_point};
    ge_lines lines = GE_LINES(p, a, b, out, first_row, last_row);
    (void)scratch;
    for (; ge_lines_more(&lines); ge_lines_step(&lines)) {
        mul_broadcast_s8_mve_line(p, &law, lines.a, lines.b, lines.out);
    }
}
