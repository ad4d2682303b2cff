/* Depthwise convolution of int8 [H, W, C] with as many output channels, 3 taps across and stride 1 or 2, for Cortex-M0,
 * M0+, M1 and M3.
 *
 * The input is copied into planes, one for each channel, so that a column is read once for up to three outputs; five
 * sums stay in registers over all rows of the window (planes.h).
 * Instructions counted under QEMU, on M0: 3x3 25x5x64 427,561 (53 per output); on M3: 3x3 25x5x64 226,570 (28 per
 * output).
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"
#include "ge_planes.h"

static void ge_depthwise_s8_thumb(const ge_conv2d_params *p, const ge_rows *x, const int32_t *weights,
                                  const int32_t *law, const ge_rows *out, int32_t first_row, int32_t last_row,
                                  void *scratch) {
    ge_planes_depthwise(p, x, weights, law, out, first_row, last_row, scratch);
}
