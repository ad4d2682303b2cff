/* Some channels of rows of outputs, for instances of depthwise3x3_rows_s8_dsp: from the first of `stream` and of the pixels on. */
#ifndef GE_ISA_DSP_DEPTHWISE_PART_H
#define GE_ISA_DSP_DEPTHWISE_PART_H

#include "ge_isa_dsp_depthwise_rows.h"

/* As ge_dsp_depthwise_rows; p->groups channels are computed, of p->out_c that a pixel has. */
__attribute__((unused, noinline)) static void
ge_dsp_depthwise_part(const ge_conv2d_params *p, const ge_rows *x, const int32_t *stream, const ge_rows *out,
                      int32_t first, int32_t last, ge_dsp_depthwise_row *row, ge_dsp_depthwise_pair *pair) {
    (void)pair;
    const uint32_t zero = (uint32_t)p->in_zero_point & 0xFFFFu;
    for (int32_t y = first; y < last; y++) {
        const int32_t middle = y * p->stride_h - p->pad_top + 1;
        const int32_t above = middle == 0;
        const int32_t below = middle == p->in_h - 1;
        int8_t *const o = (int8_t *)ge_row(out, y);
        ge_dsp_depthwise_rows_job job = {
            {NULL, ge_row(x, middle), NULL},       o, stream, zero | zero << 16, p->out_zero_point, p->groups,
            (uint32_t)above | (uint32_t)below << 1};
        job.rows[0] = above ? job.rows[1] : ge_row(x, middle - 1);
        job.rows[2] = below ? job.rows[1] : ge_row(x, middle + 1);
        row(&job);
        for (int32_t i = 0; i < p->out_w && (p->lo > INT8_MIN || p->hi < INT8_MAX); i++) {
            ge_dsp_clamp(o + i * p->out_c, p->groups, p->lo, p->hi);
        }
    }
}

#endif
