/* Convolution of int16 [H, W, C] with weights whose sums need 64 bits, any window, stride, dilation and group, for
 * Cortex-M4, M7 and M33. ge_isa_dsp_exact.h has the loop; two windows at a time are columns in scratch. 1x1, 64 to 64
 * channels on 25x5: 1.46 cycles per product. */
#include "ge.h"
#include "ge_dsp_wide_window.h"
#include "ge_isa_dsp_exact.h"
#include "ge_params.h"

static void ge_conv2d_exact_s16_dsp(const ge_conv2d_s16_params *p, const ge_rows *x, const uint32_t *stream,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t depth = p->in_c / p->groups, channels = p->out_c / p->groups;
    const int32_t steps = (p->kernel_h * p->kernel_w * depth + 1) / 2;
    const int32_t size = (channels + 1) / 2 * (6 + 2 * steps); /* words of the stream for a group */
    const int32_t points = ge_dsp_wide_are_points(p), across = p->stride_w * p->in_c, next = p->out_c;
    const ge_dsp_exact_law law = GE_DSP_EXACT_LAW(p);
    uint32_t *const columns = (uint32_t *)scratch;
    const int16_t *point[2] = {NULL, NULL};
    int16_t *places[2] = {NULL, NULL};
    memset(columns, 0, (size_t)steps * 8);
    for (int32_t g = 0; g < p->groups; g++) {
        int32_t held = 0;
        for (int32_t y = first_row; y < last_row; y++) {
            const int16_t *from = points ? (const int16_t *)ge_row(x, y * p->stride_h) + g * depth : NULL;
            int16_t *o = (int16_t *)ge_row(out, y) + g * channels;
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                if (points) {
                    point[held] = from;
                    from += across;
                } else {
                    ge_dsp_wide_window(p, x, y, ox, g * depth, depth, columns + held);
                }
                places[held] = o;
                o += next;
                held ^= 1;
                const int32_t lone = held != 0 && y + 1 == last_row && ox + 1 == p->out_w;
                if (held != 0 && !lone) {
                    continue;
                }
                if (points) {
                    ge_dsp_wide_points(point[0], point[lone ? 0 : 1], depth / 2, columns);
                }
                places[1] = places[lone ? 0 : 1]; /* a lone pixel is computed together with an old one */
                ge_dsp_exact_pixels(stream + g * size, columns, steps, channels, &law, places);
            }
        }
    }
}
