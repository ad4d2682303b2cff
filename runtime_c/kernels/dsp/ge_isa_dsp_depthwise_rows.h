/* Code that the instances of depthwise3x3_rows_s8_dsp share: everything except the code of a row, which each of them
 * has for itself. */
#ifndef GE_ISA_DSP_DEPTHWISE_ROWS_H
#define GE_ISA_DSP_DEPTHWISE_ROWS_H

#include "ge.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

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

/* Computes rows of outputs; `row` computes all channels of each. */
__attribute__((unused, noinline)) static void ge_dsp_depthwise_rows(const ge_conv2d_params *p, const ge_rows *x,
                                                                    const int32_t *stream, const ge_rows *out,
                                                                    int32_t first, int32_t last,
                                                                    void (*row)(const ge_dsp_depthwise_rows_job *job)) {
    const uint32_t zero = (uint32_t)p->in_zero_point & 0xFFFFu;
    for (int32_t y = first; y < last; y++) {
        const int32_t middle = y * p->stride_h - p->pad_top + 1;
        const uint32_t above = middle == 0 ? 1u : 0u;
        const uint32_t below = middle == p->in_h - 1 ? 2u : 0u;
        const ge_dsp_depthwise_rows_job job = {
            {ge_row(x, above != 0 ? middle : middle - 1), ge_row(x, middle),
             ge_row(x, below != 0 ? middle : middle + 1)},
            (int8_t *)ge_row(out, y),
            stream,
            zero | zero << 16,
            p->out_zero_point,
            p->out_c,
            above | below,
        };
        row(&job);
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp((int8_t *)ge_row(out, y), p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}

#endif
