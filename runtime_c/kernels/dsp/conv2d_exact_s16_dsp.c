/* Convolution of int16 [H, W, C] with weights whose sums need 64 bits, any window, stride, dilation and group, for
 * Cortex-M4, M7 and M33. ge_isa_dsp_exact.h has the loop; two windows at a time are columns in scratch. 1x1, 64 to 64
 * channels: 1.8 cycles per product. */
#include "ge.h"
#include "ge_dsp_wide_window.h"
#include "ge_isa_dsp_exact.h"
#include "ge_params.h"

static void ge_conv2d_exact_s16_dsp(const ge_conv2d_s16_params *p, const ge_rows *x, const uint32_t *stream,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t depth = p->in_c / p->groups, channels = p->out_c / p->groups;
    const int32_t turns = (p->kernel_h * p->kernel_w * depth + 7) / 8;
    const int32_t size = (channels + 1) / 2 * (6 + 8 * turns); /* words of the stream for a group */
    const ge_dsp_exact_law law = GE_DSP_EXACT_LAW(p);
    uint32_t *const columns = (uint32_t *)scratch;
    int16_t *places[2] = {NULL, NULL};
    memset(columns, 0, (size_t)turns * 32);
    for (int32_t g = 0; g < p->groups; g++) {
        int32_t held = 0;
        for (int32_t y = first_row; y < last_row; y++) {
            int16_t *const o = (int16_t *)ge_row(out, y) + g * channels;
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                ge_dsp_wide_window(p, x, y, ox, g * depth, depth, columns + held);
                places[held] = o + ox * p->out_c;
                held ^= 1;
                if (held == 0) {
                    ge_dsp_exact_pixels(stream + g * size, columns, turns, channels, &law, places);
                }
            }
        }
        if (held != 0) {
            places[1] = places[0];
            ge_dsp_exact_pixels(stream + g * size, columns, turns, channels, &law, places);
        }
    }
}
