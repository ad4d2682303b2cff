/* Fully connected: int8 rows with int8 weights, three sums in two words, for Cortex-M0, M0+, M1 and M3.
 *
 * threes.h explains the arithmetic, ge_threes.h the order of the constants.
 * Instructions counted under QEMU, on M0: 640 to 128 147,021 (1.8 per MAC); on M3:
 * 640 to 128 84,680 (1.0 per MAC).
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"
#include "ge_threes.h"

static void ge_fc_s8_thumb(const ge_fc_params *p, const ge_rows *x, const uint32_t *words, const ge_rows *out,
                           int32_t first_row, int32_t last_row, void *scratch) {
    ge_threes_block block;
    ge_threes_open(&block, words, p->out_c, p->lo, p->hi);
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row = (const int8_t *)ge_row(x, y);
        if (!GE_THREES_IN_PLACE || p->in_c % 8 != 0) {
            ge_threes_take((int8_t *)scratch, row, p->in_c);
            row = (const int8_t *)scratch;
        }
        ge_threes_pixel(&block, row, (int8_t *)ge_row(out, y));
        ge_threes_clamp(p->lo, p->hi, (int8_t *)ge_row(out, y), p->out_c);
    }
}
