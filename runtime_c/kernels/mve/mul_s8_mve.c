/* Product of two int8 tensors of one shape, each with its own zero point, requantized by 2^-32: Helium.
 *
 * Measured, instructions under QEMU: 16,384 elements 32,779 (2.0 per element).
 */
#include "ge.h"
#include "ge_mve_product.h"
#include "ge_params.h"

static void ge_mul_s8_mve(const ge_mul_params *p, const ge_rows *a, const ge_rows *b, const int32_t *multiplier,
                          const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const ge_mve_product law = {multiplier[0], p->lo, p->hi, p->zero_point_a, p->zero_point_b, p->out_zero_point};
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        ge_mve_product_each(&law, (const int8_t *)ge_row(a, y), (const int8_t *)ge_row(b, y), (int8_t *)ge_row(out, y),
                            p->row);
    }
}
