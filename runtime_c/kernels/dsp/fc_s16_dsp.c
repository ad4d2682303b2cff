/* Fully connected layer: int16 vectors with int8 or int16 weights for Cortex-M4, M7 and M33, with sums of 32 bits.
 *
 * ge_isa_dsp_wide_fc.h has the loop. 640 to 128: 1.3 cycles per product.
 *
 * scratch: a vector, if its length is not a multiple of 16. It requires shift 32 and sums below 2^31. */
#include "ge.h"
#include "ge_isa_dsp_wide_fc.h"
#include "ge_params.h"

#define FC_S16_DSP_WEIGHT int8_t /* or int16_t */

static void ge_fc_s16_dsp(const ge_fc_s16_params *p, const ge_rows *x, const uint32_t *stream, const ge_rows *out,
                          int32_t first_row, int32_t last_row, void *scratch) {
    ge_dsp_wide_fc(p, x, stream, (int32_t)sizeof(FC_S16_DSP_WEIGHT), out, first_row, last_row, scratch);
}
