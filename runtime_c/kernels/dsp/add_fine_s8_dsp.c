/* Sum (or difference) of two int8 tensors of one shape for Cortex-M4, M7 and M33, with multipliers of more than 16
 * bits. Cost: 6.9 cycles per element. */
#include "ge.h"
#include "ge_isa_dsp_sum.h"
#include "ge_params.h"

#define ADD_FINE_S8_DSP_SHIFT 21 /* shift of the sum */

/* Computes `count` elements. */
static void add_fine_s8_dsp_run(const ge_add_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t count) {
    GE_DSP_SUM_EACH(a, b, out, count, p->multiplier_a, p->multiplier_b, p->offset, ADD_FINE_S8_DSP_SHIFT);
}

static void ge_add_fine_s8_dsp(const ge_add_params *p, const ge_rows *a, const ge_rows *b, const ge_rows *out,
                               int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        add_fine_s8_dsp_run(p, (const int8_t *)ge_row(a, y), (const int8_t *)ge_row(b, y), o, p->row);
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(o, p->row, p->lo, p->hi);
        }
    }
}
