/* Fully connected: float32 rows of in_c features with weights [out_c, in_c]: the portable truth.
 * The sum begins with the bias and goes on feature by feature. */
#include "ge.h"
#include "ge_float.h"
#include "ge_params.h"

static float fc_f32_dot(float sum, const float *x, const float *w, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        sum += x[i] * w[i];
    }
    return sum;
}

static void ge_fc_f32(const ge_fc_f32_params *p, const ge_rows *x, const float *weights, const float *bias,
                      const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const float *row = (const float *)ge_row(x, y);
        float *o = (float *)ge_row(out, y);
        for (int32_t oc = 0; oc < p->out_c; oc++) {
            const float sum = fc_f32_dot(bias[oc], row, weights + oc * p->in_c, p->in_c);
            o[oc] = ge_clamp_f32(sum, p->lo, p->hi);
        }
    }
}
