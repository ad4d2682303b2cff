/* Sum (or difference) of two int8 tensors that broadcast to one shape: Helium. Cost: 1.75 to 2.25 instructions per
 * element. */
#include "ge.h"
#include "ge_broadcast.h"
#include "ge_mve_sum.h"
#include "ge_params.h"

/* One line along the innermost dimension. */
static void add_broadcast_s8_mve_line(const ge_add_broadcast_params *p, const ge_mve_sum *law, const int8_t *a,
                                      const int8_t *b, int8_t *o) {
    if (p->strides_a[3] == 0) {
        ge_mve_sum_all(law, b, law->multiplier_b, *a * law->multiplier_a + law->offset, o, p->dims[3]);
    } else if (p->strides_b[3] == 0) {
        ge_mve_sum_all(law, a, law->multiplier_a, *b * law->multiplier_b + law->offset, o, p->dims[3]);
    } else {
        ge_mve_sum_each(law, a, b, o, p->dims[3]);
    }
}

static void ge_add_broadcast_s8_mve(const ge_add_broadcast_params *p, const ge_rows *a, const ge_rows *b,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const ge_mve_sum law = {p->multiplier_a, p->lo, p->hi, p->multiplier_b, p->offset, p->shift};
    ge_lines lines = GE_LINES(p, a, b, out, first_row, last_row);
    (void)scratch;
    for (; ge_lines_more(&lines); ge_lines_step(&lines)) {
        add_broadcast_s8_mve_line(p, &law, lines.a, lines.b, lines.out);
    }
}
