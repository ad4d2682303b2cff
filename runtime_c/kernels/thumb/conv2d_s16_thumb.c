/* Convolution of int16 with plain int8 or int16 weights and 32-bit sums, any window and groups, for Cortex-M0, M0+, M1
 * and M3.
 *
 * It computes six pixels at a time (ge_thumb_wide.h). The shift must be 32 and the sums below 2^31.
 * Cycles per MAC, by the tables of measure/pipelines.py, on M0: 1x1 64->64 25x5 5.2; 10x4 1->64 6.5; on M3: 4.5;
 * 5.2. */
#include "ge.h"
#include "ge_params.h"
#include "ge_thumb_wide.h"

#define CONV2D_S16_THUMB_WEIGHT int8_t /* or int16_t */

static void ge_conv2d_s16_thumb(const ge_conv2d_s16_params *p, const ge_rows *x, const CONV2D_S16_THUMB_WEIGHT *weights,
                                const int32_t *bias, const int32_t *multiplier, const ge_rows *out, int32_t first_row,
                                int32_t last_row, void *scratch) {
    ge_wide_conv2d(p, x, (const int8_t *)(const void *)weights, (int32_t)sizeof *weights, bias, multiplier, out,
                   first_row, last_row, scratch);
}
