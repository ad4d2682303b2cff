/* Depthwise convolution of int8 [H, W, C] with plain int8 weights, [kh, kw, C], any window, for Cortex-M0, M0+, M1 and
 * M3.
 *
 * It computes the addresses of a pixel's taps once for all channels (ge_taps.h). Cycles per MAC, by the tables of
 * measure/pipelines.py, on M0: 3x3 25x5x64 16.6; 5x5 6x6x128 12.2; on M3: 3x3 25x5x64 11.6; 5x5 6x6x128 8.6.
 */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"
#include "ge_taps.h"

static void ge_depthwise_plain_s8_thumb(const ge_conv2d_params *p, const ge_rows *x, const int8_t *weights,
                                        const int32_t *bias, const int32_t *multiplier, const ge_rows *out,
                                        int32_t first_row, int32_t last_row, void *scratch) {
    ge_taps_block block = ge_taps_open(p, weights, scratch);
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            ge_taps_pixel(&block, p, x, y, ox);
            for (int32_t oc = 0; oc < p->out_c; oc++) {
                const int32_t acc = bias[oc] + block.sums[oc];
                *o++ = ge_requantize(acc, multiplier, oc, p->shift, p->out_zero_point, p->lo, p->hi);
            }
        }
    }
}
