/* Depthwise convolution of int8 [H, W, C] with as many channels out, 3 taps across, stride 1 or 2: Cortex-M0, M0+, M1 and M3.
 *
 * The input is brought into planes, so that a column read once serves up to three outputs of a channel: five sums stay in
 * registers over all rows of the kernel (planes.h).
 * Measured, instructions under QEMU, on M0: 3x3 25x5x64 427,561 (53 per output); on M3:
 * 3x3 25x5x64 226,570 (28 per output).
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
