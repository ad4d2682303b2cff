/* Convolution of int8 [H, W, C] with int8 weights, one group, three sums in two words: Cortex-M3.
 *
 * See ge_isa_armv7m.h for how, and ge_threes.h for the constants.
 * Measured, instructions under QEMU: 1x1 64->64 25x5 568,609 (1.1 per MAC); 3x3 16->16 32x32 2,862,600 (1.2).
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_armv7m.h"
#include "ge_params.h"
#include "ge_threes_window.h"

static void ge_conv2d_s8_armv7m(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *words, const ge_rows *out,
                                int32_t first_row, int32_t last_row, void *scratch) {
    ge_threes_conv2d(p, x, words, out, first_row, last_row, scratch);
}
