/* Fully connected: int8 rows with plain int8 weights, [out_c, in_c], four outputs at a time, for Cortex-M0, M0+, M1 and
 * M3.
 *
 * Cycles per MAC, by the tables of measure/pipelines.py, on M0: 640 to 128 5.7; 64 to 12 7.2; on M3: 640 to 128 5.1; 64 to 12 6.1.
 */
#include "fc.h"
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"

static void ge_fc_plain_s8_thumb(const ge_fc_params *p, const ge_rows *x, const int8_t *weights, const int32_t *bias,
                                 const int32_t *multiplier, const ge_rows *out, int32_t first_row, int32_t last_row,
                                 void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        for (int32_t oc = 0; oc < p->out_c;) {
            const int32_t count = p->out_c - oc < 4 ? 1 : 4;
            ge_fc_block block;
            block.weights = weights + (oc + 1) * p->in_c;
            block.pitch = count > 1 ? p->in_c : 0;
            block.x = (const int8_t *)ge_row(x, y) + p->in_c;
            block.left = -p->in_c;
            ge_fc_four(&block);
            for (int32_t i = 0; i < count; i++, oc++) {
                const int32_t acc = bias[oc] + block.sums[i];
                o[oc] = ge_requantize(acc, multiplier, oc, p->shift, p->out_zero_point, p->lo, p->hi);
            }
        }
    }
}
