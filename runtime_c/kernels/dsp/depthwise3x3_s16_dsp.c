/* 3x3 depthwise convolution, stride 1, of int16 with int8 or int16 weights for Cortex-M4, M7 and M33, sums of 32 bits.
 *
 * ge_dsp_wide_depthwise.h has the loop. 3x3, 64 channels on 25x5: 2.8 cycles per product.
 *
 * scratch: [blocks of four channels][three lines of four channels]. It requires shift 32 and sums below 2^31. */
#include "ge.h"
#include "ge_dsp_wide_depthwise.h"
#include "ge_params.h"

#define DEPTHWISE3X3_S16_DSP_WEIGHT int8_t /* or int16_t */

static void ge_depthwise3x3_s16_dsp(const ge_conv2d_s16_params *p, const ge_rows *x,
                                    const DEPTHWISE3X3_S16_DSP_WEIGHT *weights, const int64_t *bias,
                                    const int32_t *multiplier, const ge_rows *out, int32_t first_row, int32_t last_row,
                                    void *scratch) {
    ge_dsp_wide_depthwise3x3(p, x, weights, (int32_t)sizeof(DEPTHWISE3X3_S16_DSP_WEIGHT), bias, multiplier, out,
                             first_row, last_row, scratch);
}
