/* Convolution of int16 [H, W, C] with weights whose sums need 64 bits, any window, stride, dilation and group: Helium.
 *
 * ge_mve_exact.h has the loops. Windows lie in scratch, rounded up to eight inputs, where the additional ones have
 * weights of 0; 1x1 windows whose length is a multiple of eight are read in place. scratch: the state, two windows, the
 * sums of two pixels. 1x1, 64 to 64 channels: 0.4 instructions per product. */
#include "ge.h"
#include "ge_mve_exact.h"
#include "ge_mve_wide.h"
#include "ge_params.h"

static void ge_conv2d_exact_s16_mve(const ge_conv2d_s16_params *p, const ge_rows *x, const int8_t *stream,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t depth = p->in_c / p->groups, channels = p->out_c / p->groups;
    const int32_t steps = (p->kernel_h * p->kernel_w * depth + 7) / 8;
    const int32_t points = p->kernel_h * p->kernel_w == 1 && p->pad_top == 0 && p->pad_left == 0 && depth % 8 == 0 &&
                           (p->out_h - 1) * p->stride_h < p->in_h && (p->out_w - 1) * p->stride_w < p->in_w;
    const ge_mve_exact_law law = GE_MVE_EXACT_LAW(p);
    ge_mve_wide_call *const windows = (ge_mve_wide_call *)scratch;
    int16_t *const window = (int16_t *)scratch + GE_MVE_WIDE_STATE / 2;
    int64_t *const sums = (int64_t *)(void *)(window + 16 * steps);
    const int16_t *from[2] = {NULL, NULL};
    int16_t *places[2] = {NULL, NULL};
    ge_mve_wide_open(windows, p, x, 2);
    ge_mve_fill((int8_t *)window, 0, 32 * steps);
    for (int32_t g = 0; g < p->groups; g++) {
        const int8_t *const weights = stream + g * ge_mve_exact_size(channels, steps);
        int32_t held = 0;
        int32_t direct = 0; /* whether both pixels, which are then in one row, are read in place */
        for (int32_t y = first_row; y < last_row; y++) {
            int16_t *const o = (int16_t *)ge_row(out, y) + g * channels;
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                direct = held == 0 ? points && ox + 2 <= p->out_w : direct;
                from[held] = window + held * 8 * steps;
                if (direct) {
                    from[held] = (const int16_t *)ge_row(x, y * p->stride_h) + ox * p->stride_w * p->in_c + g * depth;
                } else {
                    ge_mve_wide_window(windows, y, ox, g * depth, window + held * 8 * steps);
                }
                places[held] = o + ox * p->out_c;
                held ^= 1;
                if (held == 0) {
                    ge_mve_exact_pixels(from, weights, steps, channels, &law, sums, places);
                }
            }
        }
        if (held != 0) {
            from[1] = from[0];
            places[1] = places[0];
            ge_mve_exact_pixels(from, weights, steps, channels, &law, sums, places);
        }
    }
}
