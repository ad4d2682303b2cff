/* Convolution of int16 with int8 or int16 weights for Cortex-M4, M7 and M33, with sums of 32 bits: any window, groups
 * of at least 4 outputs.
 *
 * ge_isa_dsp_wide.h has the loop. int8 weights of four channels are expanded to int16 for each tile of pixels, so a
 * weight takes one byte of flash; int16 weights are read in place, which takes less scratch. 1x1, 64 to 64 channels on
 * 25x5: 1.17 cycles per product, with int16 weights 1.16.
 *
 * It requires shift 32 and sums below 2^31. */
#include "ge.h"
#include "ge_isa_dsp_wide.h"
#include "ge_params.h"

#define CONV2D_S16_DSP_WEIGHT int8_t /* or int16_t */

static void ge_conv2d_s16_dsp(const ge_conv2d_s16_params *p, const ge_rows *x, const uint32_t *stream,
                              const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    ge_dsp_wide_conv(p, x, stream, sizeof(CONV2D_S16_DSP_WEIGHT) == 1, out, first_row, last_row, scratch);
}
