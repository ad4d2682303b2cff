/* Depthwise int16 layers with 32-bit sums, for the cores without DSP instructions.
 *
 * For each channel, the input rows that a tile of output rows needs are copied to a plane of words, with padding. In a
 * row of the plane, columns with the same remainder modulo the stride are contiguous, so that a tap of six neighbouring
 * outputs reads six contiguous words.
 */
#ifndef GE_THUMB_WIDE_PLANES_H
#define GE_THUMB_WIDE_PLANES_H

#include "ge.h"
#include "ge_params.h"
#include "wide.h"

#define GE_WIDE_STRIP 6
#define GE_WIDE_TILE 2048 /* limit for the bytes of plane and outputs, unless one output row takes more */

/* Numbers of one channel, in columns a stride apart, that are contiguous in the plane. */
typedef struct {
    const int16_t *from; /* address in channel 0 */
    int32_t *to, *end;
} ge_wide_run;

/* The state of a call. It lies in scratch, because the stack is short. */
typedef struct {
    int32_t strips; /* in an output row */
    int32_t phase;  /* contiguous words of a row: those with one remainder */
    int32_t pitch;  /* words in a row */
    int32_t rows;   /* output rows in a tile */
    int32_t *taps;
    ge_wide_taps_block *block;
    int16_t **outs;
    ge_wide_outputs *outputs;
    const int32_t **list; /* two pointers for each strip */
    ge_wide_run *runs, *last_run;
    int32_t *sums;
    int32_t *plane;
} ge_wide_planes;

/* Returns how many rows of the plane `rows` output rows need. */
static inline int32_t ge_wide_planes_height(const ge_conv2d_s16_params *p, int32_t rows) {
    return (rows - 1) * p->stride_h + (p->kernel_h - 1) * p->dilation_h + 1;
}

static GE_NOINLINE ge_wide_planes *ge_wide_planes_open(const ge_conv2d_s16_params *p, void *scratch) {
    ge_wide_planes *const s = (ge_wide_planes *)scratch;
    const int32_t count = p->kernel_h * p->kernel_w;
    s->strips = (p->out_w + GE_WIDE_STRIP - 1) / GE_WIDE_STRIP;
    s->phase = s->strips * GE_WIDE_STRIP + (p->kernel_w - 1) * p->dilation_w / p->stride_w;
    s->pitch = p->stride_w * s->phase;
    const int32_t row = 8 * p->out_w + 8 * s->strips;
    const int32_t line = 4 * s->pitch + (int32_t)sizeof(ge_wide_run) * p->stride_w;
    s->rows = 1;
    while (s->rows < p->out_h && (s->rows + 1) * row + line * ge_wide_planes_height(p, s->rows + 1) <= GE_WIDE_TILE) {
        s->rows++;
    }
    s->taps = (int32_t *)(void *)(s + 1);
    s->block = (ge_wide_taps_block *)(void *)(s->taps + 2 * count);
    s->outs = (int16_t **)(void *)(s->block + 1);
    s->outputs = (ge_wide_outputs *)(void *)(s->outs + s->rows * p->out_w);
    s->list = (const int32_t **)(void *)(s->outputs + 1);
    s->runs = (ge_wide_run *)(void *)(s->list + 2 * s->rows * s->strips);
    s->sums = (int32_t *)(void *)(s->runs + p->stride_w * ge_wide_planes_height(p, s->rows));
    s->plane = s->sums + s->rows * p->out_w + GE_WIDE_STRIP;
    for (int32_t tap = 0; tap < count; tap++) {
        const int32_t ky = tap / p->kernel_w;
        const int32_t column = (tap - ky * p->kernel_w) * p->dilation_w;
        const int32_t turn = column / p->stride_w;
        const int32_t word = ky * p->dilation_h * s->pitch + (column - turn * p->stride_w) * s->phase + turn;
        s->taps[2 * tap] = 4 * word;
    }
    s->outputs->skip = 0;
    s->outputs->zero_point = p->out_zero_point;
    s->outputs->lo = p->lo;
    s->outputs->hi = p->hi;
    return s;
}

/* Lists where the outputs of `rows` rows from y on go, and their strips. */
static GE_NOINLINE void ge_wide_planes_outs(ge_wide_planes *s, const ge_conv2d_s16_params *p, const ge_rows *out,
                                            int32_t y, int32_t rows) {
    int16_t **to = (int16_t **)(void *)s->outputs - rows * p->out_w;
    const int32_t **strip = s->list;
    s->outputs->outs = to;
    for (int32_t r = 0; r < rows; r++) {
        int16_t *o = (int16_t *)ge_row(out, y + r);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            *to++ = o;
            o += p->out_c;
        }
        for (int32_t ox = 0; ox < p->out_w; ox += GE_WIDE_STRIP) {
            *strip++ = s->plane + r * p->stride_h * s->pitch + ox;
            *strip++ = s->sums + r * p->out_w + ox;
        }
    }
}

/* Lists the runs of `height` input rows from `top` on, and fills the rest of the plane with padding. */
static GE_NOINLINE void ge_wide_planes_runs(ge_wide_planes *s, const ge_conv2d_s16_params *p, const ge_rows *x,
                                            int32_t top, int32_t height) {
    const int32_t last = (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w - p->pad_left + 1;
    const int32_t right = last < p->in_w ? last : p->in_w;
    int32_t *to = s->plane;
    ge_wide_run *run = s->runs;
    for (int32_t iy = top; iy < top + height; iy++) {
        for (int32_t phase = 0; phase < p->stride_w; phase++) {
            int32_t *const end = to + s->phase;
            int32_t ix = phase - p->pad_left;
            for (; ix < 0 && to < end; ix += p->stride_w) {
                *to++ = p->in_zero_point;
            }
            if (iy >= 0 && iy < p->in_h && ix < right) {
                run->from = (const int16_t *)ge_row(x, iy) + ix * p->in_c;
                run->to = to;
                to += (right - ix + p->stride_w - 1) / p->stride_w;
                run->end = to;
                run++;
            }
            while (to < end) {
                *to++ = p->in_zero_point;
            }
        }
    }
    s->last_run = run;
}

/* Copies channel c of all runs into the plane. step: from column to column of a run. */
static GE_NOINLINE void ge_wide_planes_fill(const ge_wide_planes *s, int32_t c, int32_t step) {
    for (const ge_wide_run *run = s->runs; run < s->last_run; run++) {
        const int16_t *from = run->from + c;
        int32_t *to = run->to;
        int32_t *const end = run->end;
        do {
            *to++ = *from;
            from += step;
        } while (to < end);
    }
}

/* Computes the sums of one output channel. weights: points at its first tap. */
static GE_NOINLINE void ge_wide_planes_channel(ge_wide_planes *s, const ge_conv2d_s16_params *p, const int8_t *weights,
                                               int32_t bytes, int32_t bias, int32_t rows) {
    int32_t *const end = (int32_t *)(void *)s->block;
    for (int32_t *tap = s->taps; tap < end; tap += 2) {
        tap[1] = 2 * (bytes == 1 ? *weights : *(const int16_t *)(const void *)weights);
        weights += p->out_c * bytes;
    }
    end[-1]++;
    s->block->strips = s->list;
    s->block->taps = s->taps;
    s->block->bias = bias;
    s->block->count = rows * s->strips;
    ge_wide_taps(s->block);
}

/* Computes output rows first..last-1. weights: [kh, kw, O], each of `bytes` bytes. scratch: laid out by
 * ge_wide_planes_open. */
static inline void ge_wide_depthwise(const ge_conv2d_s16_params *p, const ge_rows *x, const int8_t *weights,
                                     int32_t bytes, const int32_t *bias, const int32_t *multiplier, const ge_rows *out,
                                     int32_t first, int32_t last, void *scratch) {
    const int32_t per_channel = p->out_c / p->in_c;
    ge_wide_planes *const s = ge_wide_planes_open(p, scratch);
    for (int32_t y = first; y < last; y += s->rows) {
        const int32_t rows = last - y < s->rows ? last - y : s->rows;
        ge_wide_planes_outs(s, p, out, y, rows);
        ge_wide_planes_runs(s, p, x, y * p->stride_h - p->pad_top, ge_wide_planes_height(p, rows));
        for (int32_t c = 0, oc = 0; c < p->in_c; c++) {
            ge_wide_planes_fill(s, c, p->stride_w * p->in_c);
            for (int32_t i = 0; i < per_channel; i++, oc++) {
                ge_wide_planes_channel(s, p, weights + oc * bytes, bytes, bias[oc], rows);
                s->outputs->sums = s->sums;
                s->outputs->multiplier = multiplier + oc;
                s->outputs->offset = oc * (int32_t)sizeof(int16_t);
                s->outputs->channels = 1;
                ge_wide_finish(s->outputs);
            }
        }
    }
}

#endif
