/* Depthwise sums of all channels of one pixel with plain weights. Each core's taps.h does the multiplications.
 *
 * scratch: the sums, rounded up to an even number; the address that each tap reads from; one pixel of padding.
 */
#ifndef GE_TAPS_H
#define GE_TAPS_H

#include "ge.h"
#include "ge_params.h"
#include "ge_window.h"
#include "taps.h"

static ge_taps_block ge_taps_open(const ge_conv2d_params *p, const int8_t *weights, void *scratch) {
    ge_taps_block block;
    block.sums = (int32_t *)scratch;
    block.taps = (const int8_t **)(void *)(block.sums + (p->out_c + 1) / 2 * 2);
    block.weights = weights;
    block.end = block.taps + p->kernel_h * p->kernel_w;
    block.channels = p->out_c;
    memset(block.end, p->in_zero_point, (size_t)p->in_c);
    return block;
}

/* Computes the sums of pixel (y, ox), without bias, in block->sums. */
static void ge_taps_pixel(ge_taps_block *block, const ge_conv2d_params *p, const ge_rows *x, int32_t y, int32_t ox) {
    const int8_t **tap = block->taps;
    int32_t iy = y * p->stride_h - p->pad_top;
    while (tap < block->end) {
        const int8_t *const row = ge_window_row(p, x, iy);
        int32_t ix = ox * p->stride_w - p->pad_left;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            *tap++ = ge_window_tap(p, row, ix, (const int8_t *)block->end);
            ix += p->dilation_w;
        }
        iy += p->dilation_h;
    }
    ge_taps_sum(block);
}

#endif
