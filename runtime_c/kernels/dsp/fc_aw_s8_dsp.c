/* Fully connected layer with asymmetric weights and at least four outputs, for Cortex-M4, M7 and M33.
 *
 * Two rows at a time are columns of ge_dsp_gemm_pairs; a lone row is used twice. The stream holds the weights as int16
 * with their zero points already subtracted. Cost: 16 cycles for 16 products of two rows.
 *
 * scratch: [two pointers][the columns of two rows]. It requires shift 25..32. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

static void ge_fc_aw_s8_dsp(const ge_fc_params *p, const ge_rows *x, const uint32_t *stream, const ge_rows *out,
                            int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t steps = ge_dsp_words(p->in_c);
    const int32_t rest = p->out_c & 3;
    int8_t **const places = (int8_t **)scratch;
    uint32_t *const columns = (uint32_t *)scratch + 2;
    for (int32_t y = first_row; y < last_row; y += 2) {
        const int32_t other = y + 1 < last_row ? y + 1 : y;
        ge_dsp_gemm_job job = {columns,
                               places,
                               1,
                               rest != 0 ? 1 : p->out_c / 4,
                               stream,
                               (uint32_t)steps * 16u,
                               ge_dsp_gemm_skip(steps, GE_DSP_GEMM_PAIRS_STEP),
                               p->out_zero_point,
                               p->shift - 24,
                               0};
        places[0] = (int8_t *)ge_row(out, y);
        places[1] = (int8_t *)ge_row(out, other);
        ge_dsp_expand((const int8_t *)ge_row(x, y), p->in_c, columns);
        ge_dsp_expand((const int8_t *)ge_row(x, other), p->in_c, columns + 1);
        ge_dsp_gemm_pairs(&job);
        if (rest != 0) {
            job.w += steps * 4 + 8;
            job.groups = p->out_c / 4;
            job.channel = rest;
            ge_dsp_gemm_pairs(&job);
        }
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(places[1], p->out_c, p->lo, p->hi);
            ge_dsp_clamp(places[0], p->out_c, p->lo, p->hi);
        }
    }
}
