/* Code that the instances of depthwise3x3_rows_s8_dsp share: everything except the code of a row, which each of them
 * has for itself. */
#ifndef GE_ISA_DSP_DEPTHWISE_ROWS_H
#define GE_ISA_DSP_DEPTHWISE_ROWS_H

#include "ge.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

#define GE_DSP_DEPTHWISE_WORDS 5 /* of `stream` for a channel, in the default law */

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const int8_t *rows[3];
    int8_t *out;
    const int32_t *stream;
    uint32_t padding; /* the zero point of the input, twice */
    int32_t zero_point;
    int32_t channels;
    uint32_t edges; /* 1: the first row is padding, 2: the last one */
} ge_dsp_depthwise_rows_job;

/* Job of the loop for two rows; the order of its words is that of the frame. */
typedef struct {
    int8_t *out;     /* the first row; the second follows it */
    const int8_t *x; /* the first of four rows, one after the other */
    const int32_t *stream;
    const int32_t *stream_end;
    uint32_t padding;
    uint32_t zero_point; /* in the upper half */
} ge_dsp_depthwise_pair_job;

/* Computes all channels of one row. */
typedef void ge_dsp_depthwise_row(const ge_dsp_depthwise_rows_job *job);

/* Computes all channels of two rows. */
typedef void ge_dsp_depthwise_pair(const ge_dsp_depthwise_pair_job *job);

/* Returns whether rows y and y + 1 can be computed together: neither sees padding above or below, their rows lie one after
 * the other in memory, and what the second one overwrites has been read: channels are computed one after the other, each
 * from left to right. */
static inline int ge_dsp_depthwise_is_pair(const ge_conv2d_params *p, const ge_rows *x, const ge_rows *out, int32_t y) {
    const int32_t above = y - p->pad_top, row = p->in_w * p->in_c, made = p->out_w * p->out_c;
    if (above < 0 || above + 3 >= p->in_h) {
        return 0;
    }
    const uintptr_t from = (uintptr_t)ge_row(x, above), to = (uintptr_t)ge_row(out, y);
    int adjacent = (uintptr_t)ge_row(out, y + 1) - to == (uintptr_t)made;
    for (int32_t i = 1; i < 4; i++) {
        adjacent &= (uintptr_t)ge_row(x, above + i) - from == (uintptr_t)(i * row);
    }
    const uintptr_t second = to + (uintptr_t)made; /* where the second row goes */
    const int overwrites = second < from + (uintptr_t)(4 * row) && second + (uintptr_t)made > from;
    return adjacent && (!overwrites || (second <= from && (from - second) % (uintptr_t)p->in_c == 0));
}

/* Computes rows of outputs, where possible two at a time unless `pair` is NULL. */
__attribute__((unused, noinline)) static void
ge_dsp_depthwise_rows(const ge_conv2d_params *p, const ge_rows *x, const int32_t *stream, const ge_rows *out,
                      int32_t first, int32_t last, ge_dsp_depthwise_row *row, ge_dsp_depthwise_pair *pair) {
    const uint32_t zero = (uint32_t)p->in_zero_point & 0xFFFFu, padding = zero | zero << 16;
    int32_t count = 1;
    for (int32_t y = first; y < last; y += count) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        count = pair != NULL && y + 1 < last && ge_dsp_depthwise_is_pair(p, x, out, y) ? 2 : 1;
        if (count == 2) {
            const ge_dsp_depthwise_pair_job job = {
                o,       ge_row(x, y - p->pad_top),         stream, stream + GE_DSP_DEPTHWISE_WORDS * p->out_c,
                padding, (uint32_t)p->out_zero_point << 16,
            };
            pair(&job);
        } else {
            const int32_t middle = y * p->stride_h - p->pad_top + 1;
            const uint32_t above = middle == 0 ? 1u : 0u;
            const uint32_t below = middle == p->in_h - 1 ? 2u : 0u;
            const ge_dsp_depthwise_rows_job job = {
                {ge_row(x, above != 0 ? middle : middle - 1), ge_row(x, middle),
                 ge_row(x, below != 0 ? middle : middle + 1)},
                o,
                stream,
                padding,
                p->out_zero_point,
                p->out_c,
                above | below,
            };
            row(&job);
        }
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(o, count * p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}

#endif
