/* Convolution of float32 for Cortex-M4, M7, M33 and M55 with an FPU: any window, groups of 4 and more output channels.
 *
 * ge_isa_dsp_float.h has the loop. The windows of five pixels lie in scratch; padding is a zero, which changes no sum: none is -0,
 * because no bias is, and a finite weight times 0 is a zero. 1x1, 64 to 64 channels on 25x5: 2.8 cycles per product. */
#include "ge.h"
#include "ge_float.h"
#include "ge_isa_dsp_float.h"
#include "ge_params.h"

/* `count` inputs of one pixel, NULL for padding. */
static inline float *conv2d_f32_dsp_put(const float *x, int32_t count, float *to) {
    if (x == NULL) {
        for (int32_t i = 0; i < count; i++) {
            to[5 * i] = 0.0f;
        }
        return to + 5 * count;
    }
    for (; count >= 4; count -= 4) {
        const float a = x[0], b = x[1], c = x[2], d = x[3];
        to[0] = a;
        to[5] = b;
        to[10] = c;
        to[15] = d;
        x += 4;
        to += 20;
    }
    for (; count > 0; count--) {
        *to = *x++;
        to += 5;
    }
    return to;
}

/* The window of output (y, ox) in the `depth` channels from c0 on, rounded up to four k. */
static void conv2d_f32_dsp_window(const ge_conv2d_f32_params *p, const ge_rows *x, int32_t y, int32_t ox, int32_t c0,
                                  int32_t depth, float *to) {
    const int32_t ix = ox * p->stride_w - p->pad_left;
    const int32_t products = p->kernel_h * p->kernel_w * depth;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        const float *const row = iy >= 0 && iy < p->in_h ? (const float *)ge_row(x, iy) + c0 : NULL;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t at = ix + kx * p->dilation_w;
            to = conv2d_f32_dsp_put(row != NULL && at >= 0 && at < p->in_w ? row + at * p->in_c : NULL, depth, to);
        }
    }
    (void)conv2d_f32_dsp_put(NULL, -products & 3, to);
}

static void ge_conv2d_f32_dsp(const ge_conv2d_f32_params *p, const ge_rows *x, const float *stream, const ge_rows *out,
                              int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t depth = p->in_c / p->groups;
    const int32_t channels = p->out_c / p->groups;
    const int32_t turns = (p->kernel_h * p->kernel_w * depth + 3) / 4;
    const int32_t law = ge_dsp_float_law(p->lo, p->hi);
    const int32_t pixels = (last_row - first_row) * p->out_w;
    float *const columns = (float *)scratch;
    float *outs[5];
    uint32_t unbounded = 0;
    for (int32_t done = 0; done < pixels; done += 5) {
        const float *w = stream;
        for (int32_t g = 0; g < p->groups; g++) {
            for (int32_t i = 0; i < 5; i++) {
                const int32_t n = done + i < pixels ? done + i : pixels - 1;
                const int32_t y = first_row + n / p->out_w;
                conv2d_f32_dsp_window(p, x, y, n % p->out_w, g * depth, depth, columns + i);
                outs[i] = (float *)ge_row(out, y) + n % p->out_w * p->out_c;
            }
            for (int32_t o = 0; o < channels; o += o == 0 && channels % 4 != 0 ? channels % 4 : 4) {
                ge_dsp_float_job job = {columns, w, outs, turns, 4 * (g * channels + o), law == 1, 0};
                ge_dsp_float_products(&job);
                unbounded |= job.unbounded;
                w += 4 + 16 * turns;
            }
        }
    }
    if (law == 2 || unbounded != 0) {
        for (int32_t y = first_row; y < last_row; y++) {
            ge_dsp_float_clamp((float *)ge_row(out, y), p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}
