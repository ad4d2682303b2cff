/* Fully connected: int16 rows of in_c features with int8 weights [out_c, in_c]: the portable truth. */
#include "ge.h"
#include "ge_params.h"
#include "ge_wide.h"

#define FC_S16_WEIGHT int8_t /* or int16_t */

/* Sum of products; `chunk` of them fit int32, which the weights were checked for. */
static int64_t fc_s16_dot(const int16_t *x, const FC_S16_WEIGHT *w, int32_t count, int32_t chunk) {
    int64_t total = 0;
    for (int32_t first = 0; first < count; first += chunk) {
        const int32_t last = count - first < chunk ? count : first + chunk;
        int32_t sum = 0;
        for (int32_t i = first; i < last; i++) {
            sum += x[i] * w[i];
        }
        total += sum;
    }
    return total;
}

static void ge_fc_s16(const ge_fc_s16_params *p, const ge_rows *x, const FC_S16_WEIGHT *weights, const int64_t *bias,
                      const int32_t *multiplier, const ge_rows *out, int32_t first_row, int32_t last_row,
                      void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int16_t *row = (const int16_t *)ge_row(x, y);
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t oc = 0; oc < p->out_c; oc++) {
            const int64_t acc = bias[oc] + fc_s16_dot(row, weights + oc * p->in_c, p->in_c, p->chunk);
            o[oc] = (int16_t)ge_requantize_wide(acc, multiplier[oc], p->shift, p->out_zero_point, p->lo, p->hi);
        }
    }
}
