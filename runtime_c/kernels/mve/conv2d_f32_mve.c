/* Convolution of float32 with any window and groups: Helium, two pixels by
 * eight channels at a time. ge_mve_float.h has the loop.
 *
 * Windows lie in scratch, rounded up to a multiple of four inputs. Padding is a
 * zero, which changes no sum: no sum is -0, because no bias is, and a finite
 * weight times 0 is a zero. 1x1 windows whose length is a multiple of four are
 * read in place if both pixels are in one row. 1x1, 64 to 64 channels on 25x5:
 * 0.75 instructions per product. */
#include "ge.h"
#include "ge_mve_float.h"
#include "ge_params.h"
#include "ge_thumb_pool.h"

/* Does the same as conv2d_f32_mve_rows for at most four numbers of a row. */
static inline uint32_t conv2d_f32_mve_short(float *to, int32_t to_step, const float *x, int32_t step, int32_t count,
                                            int32_t rows, uint32_t least) {
    __asm__ volatile("mvn r3, #0\n"
                     "vmov.i32 q2, #2\n"
                     "vctp.32 %[count]\n"
                     "dls lr, %[rows]\n"
                     "1:\n"
                     "vpstttt\n"
                     "vldrwt.32 q0, [%[x]]\n"
                     "vstrwt.32 q0, [%[to]]\n"
                     "vmlast.s32 q0, q2, r3\n"
                     "vminvt.u32 %[least], q0\n"
                     "add %[x], %[x], %[step]\n"
                     "add %[to], %[to], %[to_step]\n"
                     "le lr, 1b\n"
                     : [to] "+&r"(to), [x] "+&r"(x), [least] "+&r"(least)
                     : [to_step] "r"(to_step), [step] "r"(step), [count] "r"(count), [rows] "r"(rows)
                     : "r3", "lr", "q0", "q2", "memory");
    return least;
}

/* Copies `count` > 0 numbers of each of `rows` > 0 rows, `step` bytes apart in
 * `x` and `to_step` in `to`; returns the smaller of `least` and the least of
 * them (ge_mve_float_least). */
static inline uint32_t conv2d_f32_mve_rows(float *to, int32_t to_step, const float *x, int32_t step, int32_t count,
                                           int32_t rows, uint32_t least) {
    if (count <= 4) {
        return conv2d_f32_mve_short(to, to_step, x, step, count, rows, least);
    }
    const int32_t read = (count + 3) / 4 * 16; /* bytes by which the inner loop advances both addresses */
    __asm__ volatile("mvn r3, #0\n"
                     "vmov.i32 q2, #2\n"
                     "1:\n"
                     "wlstp.32 lr, %[count], 3f\n"
                     "2:\n"
                     "vldrw.32 q0, [%[x]], #16\n"
                     "vstrw.32 q0, [%[to]], #16\n"
                     "vmlas.s32 q0, q2, r3\n"
                     "vminv.u32 %[least], q0\n"
                     "letp lr, 2b\n"
                     "3:\n"
                     "add %[x], %[x], %[step]\n"
                     "add %[to], %[to], %[to_step]\n"
                     "subs %[rows], %[rows], #1\n"
                     "bne 1b\n"
                     : [to] "+&r"(to), [x] "+&r"(x), [rows] "+&r"(rows), [least] "+&r"(least)
                     : [to_step] "r"(to_step - read), [step] "r"(step - read), [count] "r"(count)
                     : "r3", "lr", "q0", "q2", "cc", "memory");
    return least;
}

/* Copies the window of output (y, ox) in the `depth` channels from c0 on;
 * returns the smaller of `least` and the least input. Columns whose taps are
 * contiguous in the input are copied together, row after row. */
static GE_NOINLINE uint32_t conv2d_f32_mve_window(const ge_conv2d_f32_params *p, const ge_rows *x, int32_t y,
                                                  int32_t ox, int32_t c0, int32_t depth, float *to, uint32_t least) {
    const int32_t taps = p->dilation_w == 1 && depth == p->in_c ? p->kernel_w : 1;
    const int32_t run = p->kernel_w * depth, count = taps * depth;
    const int32_t top = y * p->stride_h - p->pad_top;
    const ge_thumb_span rows = ge_thumb_span_of(top, p->kernel_h, p->dilation_h, 0, p->in_h);
    const int32_t at_once = x->slots == NULL ? rows.last - rows.first : 1;
    int32_t ix = ox * p->stride_w - p->pad_left;
    const int32_t beyond = ix + (p->kernel_w - 1) * p->dilation_w >= p->in_w;
    if (ix < 0 || beyond || rows.last - rows.first < p->kernel_h) {
        ge_mve_float_zeros(to, p->kernel_h * run);
    }
    for (int32_t kx = 0; kx < p->kernel_w; kx += taps) {
        const int32_t left = ix < 0 ? -ix * depth : 0, end = (p->in_w - ix) * depth;
        const int32_t inside = (end < count ? end : count) - left;
        for (int32_t ky = rows.first; inside > 0 && ky < rows.last; ky += at_once) {
            const float *const row = (const float *)ge_row(x, top + ky * p->dilation_h) + ix * p->in_c + c0 + left;
            least = conv2d_f32_mve_rows(to + ky * run + kx * depth + left, 4 * run, row, p->dilation_h * x->stride,
                                        inside, at_once, least);
        }
        ix += p->dilation_w;
    }
    ge_mve_float_zeros(to + p->kernel_h * run, -(p->kernel_h * run) & 3);
    return least;
}

static void ge_conv2d_f32_mve(const ge_conv2d_f32_params *p, const ge_rows *x, const float *stream, const ge_rows *out,
                              int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t depth = p->in_c / p->groups;
    const int32_t channels = p->out_c / p->groups;
    const int32_t turns = (p->kernel_h * p->kernel_w * depth + 3) / 4;
    const int32_t points = p->kernel_h * p->kernel_w == 1 && p->pad_top == 0 && p->pad_left == 0 && depth % 4 == 0 &&
                           (p->out_h - 1) * p->stride_h < p->in_h && (p->out_w - 1) * p->stride_w < p->in_w;
    ge_mve_float_job job = {{NULL, NULL}, {NULL, NULL}, stream, 0, turns, p->lo, p->hi};
    for (int32_t g = 0; g < p->groups; g++) {
        int32_t held = 0;   /* pixels held so far */
        int32_t direct = 0; /* whether the windows are read in place */
        uint32_t least = GE_MVE_FLOAT_NONE;
        for (int32_t y = first_row; y < last_row; y++) {
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                float *const window = (float *)scratch + held * 4 * turns;
                direct = held == 0 ? points && ox + 2 <= p->out_w : direct;
                job.x[held] = window;
                if (points) {
                    const float *const from =
                        (const float *)ge_row(x, y * p->stride_h) + ox * p->stride_w * p->in_c + g * depth;
                    job.x[held] = direct ? from : window;
                    least =
                        direct ? ge_mve_float_least(from, depth, least) : ge_mve_float_copy(window, from, depth, least);
                } else {
                    least = conv2d_f32_mve_window(p, x, y, ox, g * depth, depth, window, least);
                }
                job.out[held] = (float *)ge_row(out, y) + ox * p->out_c + g * channels;
                held ^= 1;
                if (held == 0) {
                    ge_mve_float_run(&job, channels, least);
                    least = GE_MVE_FLOAT_NONE;
                }
            }
        }
        if (held != 0) { /* repeats the last pixel */
            job.x[1] = job.x[0];
            job.out[1] = job.out[0];
            ge_mve_float_run(&job, channels, least);
        }
        job.stream += (channels + 7) / 8 * (8 + 32 * turns);
    }
}
