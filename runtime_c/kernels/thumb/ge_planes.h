/* Rows of the input sorted by channel, for depthwise kernels on the cores without DSP instructions. Each core's
 * planes.h multiplies them.
 *
 * Each row of the input is copied once. The columns of a channel then lie next to each other, between padding. Each
 * plane holds the last `span` rows of a channel, and in slot `span` a row of padding.
 */
#ifndef GE_PLANES_H
#define GE_PLANES_H

#include "ge.h"
#include "ge_params.h"
#include "planes.h"

typedef struct {
    int32_t *steps; /* from one row of the window to the next, as in ge_planes_block; in scratch */
    int8_t *planes;
    const int8_t *first; /* the first row of the window in channel 0 */
    int32_t pitch;       /* bytes in one row of one channel */
    int32_t span;        /* input rows that one output row depends on */
    int32_t plane;       /* bytes from channel to channel */
    int32_t next;        /* the first row of the input that has not been copied yet */
} ge_planes;

/* The columns that the fives of a row read: the last five outputs end where the row ends. */
static inline int32_t ge_planes_columns(const ge_conv2d_params *p) {
    return ((p->out_w > 5 ? p->out_w : 5) - 1) * p->stride_w + p->kernel_w;
}

/* Fills the planes with padding. After `s` come the steps, the planes, and room for the outputs of a row with fewer
 * than five. */
static GE_NOINLINE void ge_planes_open(const ge_conv2d_params *p, ge_planes *s) {
    s->steps = (int32_t *)(void *)(s + 1);
    s->planes = (int8_t *)(s->steps + p->kernel_h);
    s->first = s->planes;
    s->pitch = ge_planes_columns(p);
    s->span = (p->kernel_h - 1) * p->dilation_h + 1;
    s->plane = (s->span + 1) * s->pitch;
    s->next = 0;
    const uint32_t padding = (((uint32_t)p->in_zero_point ^ GE_PLANES_FLIP) & 0xFFu) * 0x01010101u;
    uint32_t *to = (uint32_t *)(void *)s->planes;
    uint32_t *const end = to + (s->plane * p->in_c + 3) / 4;
    for (; end - to >= 4; to += 4) {
        to[0] = padding;
        to[1] = padding;
        to[2] = padding;
        to[3] = padding;
    }
    while (to < end) {
        *to++ = padding;
    }
}

/* Copies a row of the input into the planes, for channel 0 to `to`. */
static inline void ge_planes_take(const ge_conv2d_params *p, const ge_planes *s, const int8_t *row, int8_t *to) {
    const int32_t right = s->pitch - p->pad_left;
    const int32_t columns = p->in_w < right ? p->in_w : right;
    to += p->pad_left;
    if (((uintptr_t)row & 3u) == 0 && p->in_c % 4 == 0 && columns > 0) {
        ge_planes_row words;
        words.row = row;
        words.to = to;
        words.channels = p->in_c;
        words.plane = s->plane;
        words.columns = columns;
        ge_planes_spread(&words);
        return;
    }
    for (int32_t c = 0; c < p->in_c; c++) {
        for (int32_t i = 0; i < columns; i++) {
            to[c * s->plane + i] = (int8_t)(uint8_t)((uint8_t)row[i * p->in_c + c] ^ GE_PLANES_FLIP);
        }
    }
}

/* Points `first` and `steps` at the input rows of output row y, and copies those that are new. */
static inline void ge_planes_point(const ge_conv2d_params *p, const ge_rows *x, ge_planes *s, int32_t y) {
    const int32_t top = y * p->stride_h - p->pad_top;
    const int8_t *before = s->planes;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = top + ky * p->dilation_h;
        const int32_t outside = iy < 0 || iy >= p->in_h;
        int8_t *const row = s->planes + (outside ? s->span : iy % s->span) * s->pitch;
        if (!outside && iy >= s->next) {
            ge_planes_take(p, s, (const int8_t *)ge_row(x, iy), row);
            s->next = p->dilation_h == 1 ? iy + 1 : 0; /* with dilation, the rows in between were not copied */
        }
        if (ky == 0) {
            s->first = row;
        } else {
            s->steps[ky - 1] = 2 * (int32_t)(row - before);
        }
        before = row;
    }
    s->steps[p->kernel_h - 1] = 2 * (int32_t)(s->first + s->plane - before) + 1;
}

/* Computes five outputs of each channel, from column ox on. */
static void ge_planes_fives(const ge_conv2d_params *p, const ge_planes *s, const int32_t *weights, const int32_t *law,
                            int32_t ox, int8_t *out) {
    ge_planes_block block;
    block.weights = weights;
    block.x = s->first + ox * p->stride_w;
    block.steps = s->steps;
    block.law = law;
    block.out = out;
    block.pitch = p->out_c;
    block.base = ge_planes_base(p);
    block.last = law + GE_PLANES_LAW * p->out_c;
    if (p->stride_w == 1) {
        ge_planes_five_1(&block);
    } else {
        ge_planes_five_2(&block);
    }
}

/* Computes rows first_row..last_row-1 of a depthwise convolution. */
static inline void ge_planes_depthwise(const ge_conv2d_params *p, const ge_rows *x, const int32_t *weights,
                                       const int32_t *law, const ge_rows *out, int32_t first_row, int32_t last_row,
                                       void *scratch) {
    ge_planes *const planes = (ge_planes *)scratch; /* because the stack is short */
    ge_planes_open(p, planes);
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        ge_planes_point(p, x, planes, y);
        if (p->out_w < 5) {
            int8_t *const five = planes->planes + (planes->plane * p->in_c + 3) / 4 * 4;
            ge_planes_fives(p, planes, weights, law, 0, five);
            memcpy(o, five, (size_t)(p->out_w * p->out_c));
        }
        for (int32_t ox = 0; p->out_w >= 5 && ox < p->out_w; ox += 5) {
            const int32_t first = ox < p->out_w - 5 ? ox : p->out_w - 5;
            ge_planes_fives(p, planes, weights, law, first, o + first * p->out_c);
        }
        ge_planes_clamp(p, o, p->out_w * p->out_c);
    }
}

#endif
