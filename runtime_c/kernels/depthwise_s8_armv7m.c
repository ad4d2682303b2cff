/* Depthwise convolution of int8 [H, W, C] with as many channels out, 3 taps across, stride 1 or 2: Cortex-M3.
 *
 * The input is brought into planes, so that a column read once serves up to three outputs of a channel: five sums stay in
 * registers over all rows of the kernel (ge_isa_armv7m_planes.h).
 * Measured, instructions under QEMU: 3x3 25x5x64 252,363 (32 per output).
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_armv7m_planes.h"
#include "ge_params.h"
#include "ge_planes.h"

/* Five outputs of each channel, from column ox on. */
static void depthwise_s8_armv7m_five(const ge_conv2d_params *p, const ge_planes *s, const int32_t *weights,
                                     const int32_t *law, int32_t ox, int8_t *out) {
    ge_planes_block block;
    block.weights = weights;
    block.rows = s->rows;
    block.offset = ox * p->stride_w;
    block.end = s->rows + p->kernel_h;
    block.law = law;
    block.out = out;
    block.pitch = p->out_c;
    block.plane = s->plane;
    block.base = ge_planes_base(p);
    block.span = (uint32_t)(p->hi - p->lo);
    block.channels = p->out_c;
    if (p->stride_w == 1) {
        ge_planes_five_1(&block);
    } else {
        ge_planes_five_2(&block);
    }
}

static void ge_depthwise_s8_armv7m(const ge_conv2d_params *p, const ge_rows *x, const int32_t *weights,
                                   const int32_t *law, const ge_rows *out, int32_t first_row, int32_t last_row,
                                   void *scratch) {
    ge_planes planes = ge_planes_open(p, scratch);
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        ge_planes_point(p, x, &planes, y);
        if (p->out_w < 5) {
            int8_t *const five = planes.planes + (planes.plane * p->in_c + 3) / 4 * 4;
            depthwise_s8_armv7m_five(p, &planes, weights, law, 0, five);
            memcpy(o, five, (size_t)(p->out_w * p->out_c));
        }
        for (int32_t ox = 0; p->out_w >= 5 && ox < p->out_w; ox += 5) {
            const int32_t first = ox < p->out_w - 5 ? ox : p->out_w - 5;
            depthwise_s8_armv7m_five(p, &planes, weights, law, first, o + first * p->out_c);
        }
        ge_planes_clamp(p, o, p->out_w * p->out_c);
    }
}
