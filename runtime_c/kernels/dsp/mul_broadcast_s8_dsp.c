/* Product of two int8 tensors that broadcast to one shape, requantized by 2^-32, for Cortex-M4, M7 and M33. Cost: 5.1
 * to 6.2 cycles per element, and about 60 per line of the innermost dimension. */
#include "ge.h"
#include "ge_broadcast.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp_product.h"
#include "ge_params.h"

/* One line along the innermost dimension. */
static void mul_broadcast_s8_dsp_line(const ge_mul_broadcast_params *p, const ge_dsp_product *law, const int8_t *a,
                                      const int8_t *b, int8_t *o) {
    if (p->strides_a[3] == 0) {
        ge_dsp_product_all(law, b, law->minus_b, *a - p->zero_point_a, o, p->dims[3]);
    } else if (p->strides_b[3] == 0) {
        ge_dsp_product_all(law, a, law->minus_a, *b - p->zero_point_b, o, p->dims[3]);
    } else {
        ge_dsp_product_each(law, a, b, o, p->dims[3]);
    }
}

static void ge_mul_broadcast_s8_dsp(const ge_mul_broadcast_params *p, const ge_rows *a, const ge_rows *b,
                                    const int32_t *multiplier, const ge_rows *out, int32_t first_row, int32_t last_row,
                                    void *scratch) {
    const ge_dsp_product law = GE_DSP_PRODUCT_LAW(p, multiplier[0]);
    ge_lines lines = GE_LINES(p, a, b, out, first_row, last_row);
    (void)scratch;
    for (; ge_lines_more(&lines); ge_lines_step(&lines)) {
        mul_broadcast_s8_dsp_line(p, &law, lines.a, lines.b, lines.out);
    }
}
