/* Depthwise convolution of int16 with int8 or int16 weights as they are, sums of 32 bits, any window: Cortex-M0, M0+, M1 and M3.
 *
 * A channel is copied to a plane of words, six outputs at a time (ge_thumb_wide_planes.h). Needs shift 32 and sums below 2^31.
 * Cycles per MAC, by the tables of measure/pipelines.py, 3x3 25x5x64: on M0 12.9; on M3 10.2. */
#include "ge.h"
#include "ge_params.h"
#include "ge_thumb_wide_planes.h"

#define DEPTHWISE_S16_THUMB_WEIGHT int8_t /* or int16_t */

static void ge_depthwise_s16_thumb(const ge_conv2d_s16_params *p, const ge_rows *x,
                                   const DEPTHWISE_S16_THUMB_WEIGHT *weights, const int32_t *bias,
                                   const int32_t *multiplier, const ge_rows *out, int32_t first_row, int32_t last_row,
                                   void *scratch) {
    ge_wide_depthwise(p, x, (const int8_t *)(const void *)weights, (int32_t)sizeof *weights, bias, multiplier, out,
                      first_row, last_row, scratch);
}
