/* Convolution of float32 for Cortex-M4, M7, M33 and M55 with an FPU: any window, groups of at least 4 output channels.
 *
 * ge_isa_dsp_float.h has the loop. The windows of five pixels lie in scratch; padding is a zero, which changes no sum:
 * no sum is -0, because no bias is, and a finite weight times 0 is a zero. 1x1, 64 to 64 channels on 25x5: 2.8 cycles
 * per product. */
#include "ge.h"
#include "ge_float.h"
#include "ge_isa_dsp_float.h"
#include "ge_params.h"

/* Copies `count` inputs of one pixel as words: four in 14 cycles. */
static inline ge_word *conv2d_f32_dsp_put(const ge_word *x, int32_t count, ge_word *to) {
    int32_t fours = count >> 2;
    if (fours > 0) {
        __asm__ volatile("    .balign 4\n"
                         "1:\n"
                         "    ldm.w %[x]!, {r2, r3, r4, r5}\n"
                         "    subs.w %[fours], %[fours], #1\n"
                         "    str.w r3, [%[to], #20]\n"
                         "    str.w r4, [%[to], #40]\n"
                         "    str.w r5, [%[to], #60]\n"
                         "    str.w r2, [%[to]], #80\n"
                         "    bne.w 1b\n"
                         : [x] "+&r"(x), [to] "+&r"(to), [fours] "+&r"(fours)
                         :
                         : "r2", "r3", "r4", "r5", "cc", "memory");
    }
    for (count &= 3; count > 0; count--) {
        *to = *x++;
        to += 5;
    }
    return to;
}

/* Writes `count` zeros of one pixel. */
static ge_word *conv2d_f32_dsp_zeros(int32_t count, ge_word *to) {
    for (; count > 0; count--) {
        *to = 0; /* a float32 of 0 */
        to += 5;
    }
    return to;
}

/* Copies a window whose taps are adjacent, from row iy and column ix on: in each row zeros, inputs, zeros. */
static ge_word *conv2d_f32_dsp_rows(const ge_conv2d_f32_params *p, const ge_rows *x, int32_t iy, int32_t ix, int32_t c0,
                                    int32_t depth, ge_word *to) {
    const int32_t run = p->kernel_w * depth;
    const int32_t left = ix >= 0 ? 0 : (-ix < p->kernel_w ? -ix * depth : run);
    const int32_t end = ix + p->kernel_w <= p->in_w ? run : (p->in_w - ix) * depth;
    const int32_t inside = end > left ? end - left : 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        if (iy < 0 || iy >= p->in_h || inside == 0) {
            to = conv2d_f32_dsp_zeros(run, to);
        } else {
            to = left > 0 ? conv2d_f32_dsp_zeros(left, to) : to;
            to = conv2d_f32_dsp_put((const ge_word *)ge_row(x, iy) + ix * p->in_c + c0 + left, inside, to);
            to = end < run ? conv2d_f32_dsp_zeros(run - end, to) : to;
        }
        iy += p->dilation_h;
    }
    return to;
}

/* Copies a window whose taps are not adjacent. */
static ge_word *conv2d_f32_dsp_taps(const ge_conv2d_f32_params *p, const ge_rows *x, int32_t iy, int32_t first,
                                    int32_t c0, int32_t depth, ge_word *to) {
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const ge_word *const row = iy >= 0 && iy < p->in_h ? (const ge_word *)ge_row(x, iy) + c0 : NULL;
        int32_t ix = first;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t there = row != NULL && ix >= 0 && ix < p->in_w;
            to = there ? conv2d_f32_dsp_put(row + ix * p->in_c, depth, to) : conv2d_f32_dsp_zeros(depth, to);
            ix += p->dilation_w;
        }
        iy += p->dilation_h;
    }
    return to;
}

/* Copies the window of output (y, ox) in the `depth` channels from c0 on, rounded up to four k. */
static GE_NOINLINE void conv2d_f32_dsp_window(const ge_conv2d_f32_params *p, const ge_rows *x, int32_t y, int32_t ox,
                                              int32_t c0, int32_t depth, ge_word *to) {
    const int32_t iy = y * p->stride_h - p->pad_top;
    const int32_t ix = ox * p->stride_w - p->pad_left;
    if (p->kernel_w == 1 || (p->dilation_w == 1 && depth == p->in_c)) {
        to = conv2d_f32_dsp_rows(p, x, iy, ix, c0, depth, to);
    } else {
        to = conv2d_f32_dsp_taps(p, x, iy, ix, c0, depth, to);
    }
    (void)conv2d_f32_dsp_zeros(-(p->kernel_h * p->kernel_w * depth) & 3, to);
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
                const int32_t y = n / p->out_w;
                const int32_t ox = n - y * p->out_w;
                conv2d_f32_dsp_window(p, x, first_row + y, ox, g * depth, depth, (ge_word *)(void *)columns + i);
                outs[i] = (float *)ge_row(out, first_row + y) + ox * p->out_c;
            }
            ge_dsp_float_job job = {columns, w, outs, turns, 4 * g * channels, law == 1, 0, 1};
            if (channels % 4 != 0) { /* the first four, of which the next ones compute some a second time */
                ge_dsp_float_products(&job);
                job.channel = 4 * (g * channels + channels % 4);
            }
            job.groups = channels / 4;
            ge_dsp_float_products(&job);
            unbounded |= job.unbounded;
            w = job.w;
        }
    }
    if (law == 2 || unbounded != 0) {
        for (int32_t y = first_row; y < last_row; y++) {
            ge_dsp_float_clamp((float *)ge_row(out, y), p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}
