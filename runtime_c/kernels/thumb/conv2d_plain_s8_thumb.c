/* Convolution of int8 [H, W, C] with plain int8 weights, [O, kh, kw, C/groups], for Cortex-M0, M0+, M1 and M3.
 *
 * It computes three pixels at a time (ge_plain.h). Flash holds each weight once, in a byte.
 * Cycles per MAC, by the tables of measure/pipelines.py, on M0: 1x1 65->40 2x9 4.8; 3x3 64->48 9x1 3.8; on M3: 1x1 65->40 2x9 3.8; 3x3 64->48 9x1 3.2.
 */
#include "ge.h"
#include "ge_law.h"
#include "ge_params.h"
#include "ge_plain.h"

static void ge_conv2d_plain_s8_thumb(const ge_conv2d_params *p, const ge_rows *x, const int8_t *weights,
                                     const int32_t *bias, const int32_t *multiplier, const ge_rows *out,
                                     int32_t first_row, int32_t last_row, void *scratch) {
    ge_plain *const s = ge_plain_open(p, scratch);
    const int32_t *const sums = s->sums;
    const int32_t channels = s->channels;
    ge_rows in = *x;
    for (int32_t first = 0; first < p->out_c; first += channels) {
        for (int32_t y = first_row, ox = 0; y < last_row;) {
            ge_plain_next(s, p, out, &y, &ox, last_row);
            ge_plain_sums(s, p, &in, weights + first * s->inputs);
            for (int32_t i = 0; i < 3 && s->at.out[i] != NULL; i++) {
                int8_t *const o = s->at.out[i] + first;
                for (int32_t c = 0; c < channels; c++) {
                    const int32_t acc = bias[first + c] + sums[3 * c + i];
                    o[c] = ge_requantize(acc, multiplier, first + c, p->shift, p->out_zero_point, p->lo, p->hi);
                }
            }
        }
        in.data = (int8_t *)in.data + s->depth;
    }
}
