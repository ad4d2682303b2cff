/* Sum (or difference) of two int8 tensors of one shape, each with its own scale: Helium. Cost: 2.25 instructions per
 * element. */
#include "ge.h"
#include "ge_mve_sum.h"
#include "ge_params.h"

static void ge_add_s8_mve(const ge_add_params *p, const ge_rows *a, const ge_rows *b, const ge_rows *out,
                          int32_t first_row, int32_t last_row, void *scratch) {
    const ge_mve_sum law = {p->multiplier_a, p->lo, p->hi, p->multiplier_b, p->offset, p->shift};
    (void)scratch;
    if (first_row < last_row && a->slots == NULL && b->slots == NULL && out->slots == NULL && a->stride == p->row &&
        b->stride == p->row && out->stride == p->row) {
        ge_mve_sum_each(&law, (const int8_t *)ge_row(a, first_row), (const int8_t *)ge_row(b, first_row),
                        (int8_t *)ge_row(out, first_row), (last_row - first_row) * p->row);
        return;
    }
    for (int32_t y = first_row; y < last_row; y++) {
        ge_mve_sum_each(&law, (const int8_t *)ge_row(a, y), (const int8_t *)ge_row(b, y), (int8_t *)ge_row(out, y),
                        p->row);
    }
}
