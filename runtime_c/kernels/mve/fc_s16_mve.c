/* Fully connected layer: int16 rows with int8 or int16 weights, sums of 32 bits: Helium. ge_mve_wide_fc.h has the loop.
 *
 * 640 to 128: 0.33 instructions per MAC under QEMU. It requires shift 32 and sums below 2^31. */
#include "ge.h"
#include "ge_mve_wide_fc.h"
#include "ge_params.h"

#define FC_S16_MVE_WEIGHT int8_t /* or int16_t */

static void ge_fc_s16_mve(const ge_fc_s16_params *p, const ge_rows *x, const int8_t *stream, const ge_rows *out,
                          int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    ge_mve_wide_fc(p, x, stream, (int32_t)sizeof(FC_S16_MVE_WEIGHT), out, first_row, last_row);
}
