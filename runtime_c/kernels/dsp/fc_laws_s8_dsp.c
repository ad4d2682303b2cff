/* Fully connected layer for any law, for Cortex-M4, M7 and M33: int8 rows of in_c features with int8 weights [out_c,
 * in_c]. Weights may have zero points; their product with the sum of a row is then subtracted. It computes two outputs
 * at a time. Cost: about 2 cycles per product, and the law's requantization; the portable kernel takes 7.1. */
#include "ge.h"
#include "ge_dsp_dot.h"
#include "ge_law.h"
#include "ge_params.h"
#include "sums_s8.h"

#define FC_LAWS_S8_DSP_ASYMMETRIC 0 /* 1: weights have zero points */

static void ge_fc_laws_s8_dsp(const ge_fc_params *p, const ge_rows *x, GE_CONSTANTS, const ge_rows *out,
                              int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row = (const int8_t *)ge_row(x, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        const int32_t total = FC_LAWS_S8_DSP_ASYMMETRIC ? ge_dsp_add(row, p->in_c, 0) : 0;
        for (int32_t oc = 0; oc < p->out_c; oc += 2) {
            const int32_t other = oc + 1 < p->out_c ? oc + 1 : oc;
            int32_t sums[2] = {bias[oc] - GE_WEIGHT_ZERO(oc) * total, bias[other] - GE_WEIGHT_ZERO(other) * total};
            ge_dsp_dot(row, weights + oc * p->in_c, weights + other * p->in_c, p->in_c, sums);
            o[other] = ge_requantize(sums[1], multiplier, other, p->shift, p->out_zero_point, p->lo, p->hi);
            o[oc] = ge_requantize(sums[0], multiplier, oc, p->shift, p->out_zero_point, p->lo, p->hi);
        }
    }
}
