/* Convolution by columns, for Cortex-M4, M7 and M33: what its kernels share.
 *
 * The windows of a few pixels are expanded once to int16 columns, then multiplied by all weights: 4 channels x 2 pixels at
 * a time. Pixels are taken across row ends, so that narrow images lose nothing. Odd numbers of channels: the second
 * block of four begins earlier and computes some of them twice.
 *
 * scratch: [out pointers of the tile][one run of bytes at a border][columns]. */
#ifndef GE_ISA_DSP_COLUMNS_H
#define GE_ISA_DSP_COLUMNS_H

#include "ge.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

/* A matrix product: ge_dsp_gemm or one with the same job. */
typedef struct {
    void (*run)(const ge_dsp_gemm_job *job);
    int32_t step; /* bytes of a step in its loop of GE_DSP_GEMM_UNROLL */
    int32_t tile; /* pixels at a time, even: as many at most */
} ge_dsp_gemm_kind;

#define GE_DSP_COLUMNS_TILE_BYTES 2048
#define GE_DSP_COLUMNS_TILE_MAX 16

/* How the window of one group lies in memory: `rows * parts` runs of `run` bytes each. */
typedef struct {
    int32_t depth; /* input channels of the group */
    int32_t parts; /* runs in a row of the window: 1 where its taps touch */
    int32_t taps;  /* in a run */
    int32_t run;   /* bytes */
    int32_t steps; /* words of a column: pairs of k */
    int32_t tile;  /* pixels, even */
} ge_dsp_columns_shape;

static inline ge_dsp_columns_shape ge_dsp_columns_shape_of(const ge_conv2d_params *p, int32_t most) {
    ge_dsp_columns_shape s;
    const int32_t together = p->groups == 1 && (p->dilation_w == 1 || p->kernel_w == 1);
    s.depth = p->in_c / p->groups;
    s.parts = together ? 1 : p->kernel_w;
    s.taps = together ? p->kernel_w : 1;
    s.run = s.taps * s.depth;
    s.steps = p->kernel_h * s.parts * ge_dsp_words(s.run);
    s.tile = GE_DSP_COLUMNS_TILE_BYTES / (4 * s.steps) & ~1;
    s.tile = s.tile < 2 ? 2 : (s.tile > most ? most : s.tile);
    return s;
}

/* The run from column `ix` on, which may stick out on either side, as bytes. */
static inline const int8_t *ge_dsp_columns_border(const ge_conv2d_params *p, const ge_dsp_columns_shape *s,
                                                  const int8_t *row, int32_t ix, int32_t c0, int8_t *bytes) {
    for (int32_t t = 0; t < s->taps; t++) {
        int8_t *to = bytes + t * s->depth;
        if (row != NULL && ix + t >= 0 && ix + t < p->in_w) {
            memcpy(to, row + (ix + t) * p->in_c + c0, (size_t)s->depth);
        } else {
            memset(to, p->in_zero_point, (size_t)s->depth);
        }
    }
    return bytes;
}

/* The window of pixel (y, ox) as one column of int16. */
static inline void ge_dsp_columns_column(const ge_conv2d_params *p, const ge_dsp_columns_shape *s, const ge_rows *x,
                                         int32_t y, int32_t ox, int32_t c0, int8_t *bytes, uint32_t *to) {
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        const int8_t *row = iy >= 0 && iy < p->in_h ? (const int8_t *)ge_row(x, iy) : NULL;
        for (int32_t part = 0; part < s->parts; part++) {
            const int32_t ix = ox * p->stride_w - p->pad_left + part * p->dilation_w;
            const int32_t inside = row != NULL && ix >= 0 && ix + s->taps <= p->in_w;
            const int8_t *run = inside ? row + ix * p->in_c + c0 : ge_dsp_columns_border(p, s, row, ix, c0, bytes);
            to = ge_dsp_expand(run, s->run, to);
        }
    }
}

/* All channels of one group for `count` pixels whose columns are there. */
static inline void ge_dsp_columns_multiply(const ge_conv2d_params *p, const ge_dsp_columns_shape *s, const uint32_t *w,
                                           int8_t **pixels, int32_t count, int32_t channel, const uint32_t *columns,
                                           const ge_dsp_gemm_kind *kind) {
    const int32_t channels = p->out_c / p->groups;
    const int32_t rest = channels & 3;
    ge_dsp_gemm_job job = {columns,
                           pixels,
                           (count + 1) / 2,
                           channels / 4,
                           w,
                           (uint32_t)s->steps * 8u,
                           ge_dsp_gemm_skip(s->steps, kind->step),
                           p->out_zero_point,
                           p->shift - 24,
                           channel};
    if (rest != 0) {
        job.groups = 1;
        kind->run(&job);
        job.w += s->steps * 2 + 8;
        job.groups = channels / 4;
        job.channel = channel + rest;
    }
    kind->run(&job);
}

/* Fewer than four channels: they are computed into `four`, beside three that nobody wants, two pixels at a time. */
static inline void ge_dsp_columns_few(const ge_conv2d_params *p, const ge_dsp_columns_shape *s, const uint32_t *w,
                                      int8_t *const *pixels, int32_t count, int32_t channel, const uint32_t *columns,
                                      const ge_dsp_gemm_kind *kind) {
    const size_t channels = (size_t)(p->out_c / p->groups);
    for (int32_t i = 0; i < count; i += 2) {
        const int32_t both = i + 1 < count;
        int8_t four[8];
        int8_t *const places[2] = {four, four + 4 * both};
        const ge_dsp_gemm_job job = {columns + i * s->steps,
                                     places,
                                     1,
                                     1,
                                     w,
                                     (uint32_t)s->steps * 8u,
                                     ge_dsp_gemm_skip(s->steps, kind->step),
                                     p->out_zero_point,
                                     p->shift - 24,
                                     0};
        kind->run(&job);
        memcpy(pixels[i] + channel, four, channels);
        if (both) {
            memcpy(pixels[i + 1] + channel, four + 4, channels);
        }
    }
}

/* Pixels of the tile from `start` on. With groups, whose inputs are read one after the other, it ends with the row: when
 * a row is written, that of the next need not be read any more, but its own may. */
static inline int32_t ge_dsp_columns_count(const ge_conv2d_params *p, const ge_dsp_columns_shape *s, int32_t start,
                                           int32_t end) {
    const int32_t last = p->groups > 1 ? (start / p->out_w + 1) * p->out_w : end;
    return last - start < s->tile ? last - start : s->tile;
}

/* The kernel, with one of the matrix products. */
static inline void ge_dsp_columns(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                  const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch,
                                  const ge_dsp_gemm_kind *kind) {
    const ge_dsp_columns_shape s = ge_dsp_columns_shape_of(p, kind->tile);
    const int32_t channels = p->out_c / p->groups;
    const int32_t group_words = (channels + 3) / 4 * (s.steps * 2 + 8);
    int8_t **pixels = (int8_t **)scratch;
    int8_t *bytes = (int8_t *)(pixels + kind->tile);
    uint32_t *columns = (uint32_t *)(void *)(bytes + ((s.run + 3) & ~3));
    const int32_t end = last_row * p->out_w;

    int32_t count = 0;
    for (int32_t start = first_row * p->out_w; start < end; start += count) {
        count = ge_dsp_columns_count(p, &s, start, end);
        for (int32_t g = 0; g < p->groups; g++) {
            int32_t y = start / p->out_w;
            int32_t ox = start - y * p->out_w;
            for (int32_t i = 0; i < count; i++) {
                pixels[i] = (int8_t *)ge_row(out, y) + ox * p->out_c;
                ge_dsp_columns_column(p, &s, x, y, ox, g * s.depth, bytes, columns + (i >> 1) * 2 * s.steps + (i & 1));
                ox++;
                if (ox == p->out_w) {
                    ox = 0;
                    y++;
                }
            }
            if ((count & 1) != 0) {
                pixels[count] = pixels[count - 1];
            }
            const uint32_t *w = stream + g * group_words;
            if (channels < 4) {
                ge_dsp_columns_few(p, &s, w, pixels, count, g * channels, columns, kind);
            } else {
                ge_dsp_columns_multiply(p, &s, w, pixels, count, g * channels, columns, kind);
            }
        }
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            for (int32_t i = 0; i < count; i++) {
                ge_dsp_clamp(pixels[i], p->out_c, p->lo, p->hi);
            }
        }
    }
}

#endif
