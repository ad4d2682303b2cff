/* Fully connected: rows of in_c features with weights [out_c, in_c], in portable C. */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"
#include "sums_s8.h"

static void ge_fc(const GE_PARAMS(ge_fc) * p, const ge_rows *x, GE_CONSTANTS, const ge_rows *out, int32_t first_row,
                  int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const GE_ELEMENT *row = (const GE_ELEMENT *)ge_row(x, y);
        GE_ELEMENT *o = (GE_ELEMENT *)ge_row(out, y);
        for (int32_t oc = 0; oc < p->out_c; oc++) {
            const GE_SUM sum = GE_DOT(p, bias[oc], row, weights + oc * p->in_c, p->in_c, GE_WEIGHT_ZERO(oc));
            o[oc] = GE_FINISH(p, sum, oc);
        }
    }
}
