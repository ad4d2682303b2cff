/* A computed mask of attention in the unit of the scores, in portable C. glowembed/ops/attention.py defines the
 * arithmetic. */
#include "ge.h"
#include "ge_params.h"

static void ge_attention_mask_s16(const ge_attention_mask_params *p, const ge_rows *x, const ge_rows *out,
                                  int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t half = 1 << p->shift >> 1;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int16_t *const from = (const int16_t *)ge_row(x, y);
        int16_t *const to = (int16_t *)ge_row(out, y);
        for (int32_t i = 0; i < p->row; i++) {
            const int32_t mask = from[i] < 8191 ? from[i] : 8191;
            to[i] = (int16_t)(mask < -8192 ? -32768 : (mask + half) >> p->shift);
        }
    }
}
