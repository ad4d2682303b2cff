/* Fully connected: int8 rows of in_c features with int8 weights [out_c, in_c] that have a zero point per
 * output: the portable truth. */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"

static int32_t fc_aw_s8_dot(const int8_t *x, const int8_t *w, int32_t count, int32_t w_zero) {
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += x[i] * (w[i] - w_zero);
    }
    return sum;
}

static void ge_fc_aw_s8(const ge_fc_params *p, const ge_rows *x, const int8_t *weights, const int32_t *bias,
                        const int32_t *multiplier, const int32_t *weight_zero_point, const ge_rows *out,
                        int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row = (const int8_t *)ge_row(x, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t oc = 0; oc < p->out_c; oc++) {
            const int32_t acc = bias[oc] + fc_aw_s8_dot(row, weights + oc * p->in_c, p->in_c, weight_zero_point[oc]);
            o[oc] = ge_requantize(acc, multiplier, oc, p->shift, p->out_zero_point, p->lo, p->hi);
        }
    }
}
