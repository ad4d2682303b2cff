/* Convolution of int8 [H, W, C] with int8 weights, one group, three sums in two words, for Cortex-M0, M0+, M1 and M3.
 *
 * threes.h explains the arithmetic, ge_threes.h the order of the constants.
 * Instructions counted under QEMU, on M0: 1x1 64->64 25x5 1,055,633 (2.1 per MAC); 3x3 16->16 32x32 4,905,740 (2.1); on
 * M3: 1x1 64->64 25x5 568,609 (1.1 per MAC); 3x3 16->16 32x32 2,862,600 (1.2).
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"
#include "ge_threes_window.h"

static void ge_conv2d_s8_thumb(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *words, const ge_rows *out,
                               int32_t first_row, int32_t last_row, void *scratch) {
    ge_threes_conv2d(p, x, words, out, first_row, last_row, scratch);
}
