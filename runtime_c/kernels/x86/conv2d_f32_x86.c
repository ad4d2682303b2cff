/* Convolution of float32: one text for every level of x86-64.
 *
 * 16 output channels, or twice as many, of a few pixels at a time: for each k, the weights of the channels times the pixel's
 * input. Each output is one chain, in the order of the law. Windows lie in scratch, with zeros as padding; pixels of 1x1 are read
 * where they lie, if all are of one row: outputs of a row may lie over inputs of the rows before it. Zeros change no sum: none is -0, because no bias is, and a finite weight times 0 is a zero. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_portable.h"

#define CONV2D_F32_X86_UNIT 16                                     /* channels of a block of weights */
#define CONV2D_F32_X86_PARTS (CONV2D_F32_X86_UNIT / GE_X86_FLOATS) /* vectors of a block */

typedef struct {
    const float *x[GE_X86_FLOAT_PIXELS];
    float *out[GE_X86_FLOAT_PIXELS];
    int32_t count; /* pixels that exist */
    int32_t products;
    float lo[CONV2D_F32_X86_UNIT], hi[CONV2D_F32_X86_UNIT];
} conv2d_f32_x86_job;

/* The channels of one pixel go out. */
static inline GE_X86_INLINE void conv2d_f32_x86_store(const conv2d_f32_x86_job *job, const ge_x86_floats *sums,
                                                      float *o, int32_t channels) {
    float few[CONV2D_F32_X86_UNIT];
    float *const to = channels < CONV2D_F32_X86_UNIT ? few : o;
    GE_X86_UNROLL
    for (int32_t v = 0; v < CONV2D_F32_X86_PARTS; v++) {
        const int32_t at = v * GE_X86_FLOATS;
        ge_x86_store_floats(
            to + at, ge_x86_clamped_floats(sums[v], ge_x86_floats_at(job->lo + at), ge_x86_floats_at(job->hi + at)));
    }
    if (channels < CONV2D_F32_X86_UNIT) {
        /* cppcheck-suppress uninitvar -- the loop above has filled it, by intrinsics */
        memcpy(o, few, (size_t)channels * sizeof *o);
    }
}

/* A block of 16 channels of the pixels, of which `channels` exist, from channel o on. */
static GE_X86_FN void conv2d_f32_x86_block(const conv2d_f32_x86_job *job, const float *w, int32_t o, int32_t channels) {
    ge_x86_floats sums[GE_X86_FLOAT_PIXELS][CONV2D_F32_X86_PARTS];
    GE_X86_UNROLL
    for (int32_t i = 0; i < GE_X86_FLOAT_PIXELS; i++) {
        GE_X86_UNROLL
        for (int32_t v = 0; v < CONV2D_F32_X86_PARTS; v++) {
            sums[i][v] = ge_x86_floats_at(w + v * GE_X86_FLOATS);
        }
    }
    for (int32_t k = 0; k < job->products; k++) {
        w += CONV2D_F32_X86_UNIT;
        GE_X86_UNROLL
        for (int32_t v = 0; v < CONV2D_F32_X86_PARTS; v++) {
            const ge_x86_floats weights = ge_x86_floats_at(w + v * GE_X86_FLOATS);
            GE_X86_UNROLL
            for (int32_t i = 0; i < GE_X86_FLOAT_PIXELS; i++) {
                sums[i][v] += job->x[i][k] * weights;
            }
        }
    }
    for (int32_t i = 0; i < job->count; i++) {
        conv2d_f32_x86_store(job, sums[i], job->out[i] + o, channels);
    }
}

/* The window of output (y, ox) in the `depth` channels from c0 on. */
static GE_X86_FN void conv2d_f32_x86_window(const ge_conv2d_f32_params *p, const ge_rows *x, int32_t y, int32_t ox,
                                            int32_t c0, int32_t depth, float *to) {
    const int32_t ix = ox * p->stride_w - p->pad_left;
    const int32_t whole = p->dilation_w == 1 && depth == p->in_c && ix >= 0 && ix + p->kernel_w <= p->in_w;
    const int32_t run = whole ? p->kernel_w * depth : depth;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        const float *const row = iy >= 0 && iy < p->in_h ? (const float *)ge_row(x, iy) + c0 : NULL;
        for (int32_t kx = 0; kx < (whole ? 1 : p->kernel_w); kx++) {
            const int32_t at = ix + kx * p->dilation_w;
            if (row != NULL && at >= 0 && at < p->in_w) {
                memcpy(to, row + at * p->in_c, (size_t)run * sizeof *to);
            } else {
                memset(to, 0, (size_t)run * sizeof *to);
            }
            to += run;
        }
    }
}

/* All channels of group g of `count` pixels, of which the first is output n, counted from row `first`. */
static GE_X86_FN void conv2d_f32_x86_pixels(const ge_conv2d_f32_params *p, const ge_rows *x, const float *w,
                                            const ge_rows *out, int32_t first, int32_t n, int32_t g,
                                            conv2d_f32_x86_job *job, float *windows) {
    const int32_t depth = p->in_c / p->groups, channels = p->out_c / p->groups;
    const int32_t points = p->kernel_h * p->kernel_w == 1 && p->pad_top == 0 && p->pad_left == 0 &&
                           (p->out_h - 1) * p->stride_h < p->in_h && (p->out_w - 1) * p->stride_w < p->in_w &&
                           n % p->out_w + job->count <= p->out_w;
    for (int32_t i = 0; i < GE_X86_FLOAT_PIXELS; i++) {
        const int32_t at = i < job->count ? n + i : n;
        const int32_t y = first + at / p->out_w, ox = at % p->out_w;
        float *const window = windows + i * job->products;
        if (points) {
            job->x[i] = (const float *)ge_row(x, y * p->stride_h) + ox * p->stride_w * p->in_c + g * depth;
        } else {
            conv2d_f32_x86_window(p, x, y, ox, g * depth, depth, window);
            job->x[i] = window;
        }
        job->out[i] = (float *)ge_row(out, y) + ox * p->out_c + g * channels;
    }
    for (int32_t o = 0; o < channels; o += CONV2D_F32_X86_UNIT) {
        const int32_t left = channels - o;
        conv2d_f32_x86_block(job, w, o, left < CONV2D_F32_X86_UNIT ? left : CONV2D_F32_X86_UNIT);
        w += (job->products + 1) * CONV2D_F32_X86_UNIT;
    }
}

static GE_X86_FN void ge_conv2d_f32_x86(const ge_conv2d_f32_params *p, const ge_rows *x, const float *stream,
                                        const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t blocks = (p->out_c / p->groups + CONV2D_F32_X86_UNIT - 1) / CONV2D_F32_X86_UNIT;
    const int32_t pixels = (last_row - first_row) * p->out_w;
    conv2d_f32_x86_job job;
    job.products = p->kernel_h * p->kernel_w * (p->in_c / p->groups);
    for (int32_t i = 0; i < CONV2D_F32_X86_UNIT; i++) {
        job.lo[i] = p->lo;
        job.hi[i] = p->hi;
    }
    for (int32_t g = 0; g < p->groups; g++) {
        const float *const w = stream + g * blocks * (job.products + 1) * CONV2D_F32_X86_UNIT;
        for (int32_t n = 0; n < pixels; n += GE_X86_FLOAT_PIXELS) {
            job.count = pixels - n < GE_X86_FLOAT_PIXELS ? pixels - n : GE_X86_FLOAT_PIXELS;
            conv2d_f32_x86_pixels(p, x, w, out, first_row, n, g, &job, (float *)scratch);
        }
    }
}
