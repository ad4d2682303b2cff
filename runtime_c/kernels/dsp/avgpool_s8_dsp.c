/* Mean of each window of int8 [H, W, C], C at least 4, by the default law, for Cortex-M4, M7 and M33.
 *
 * Sums are shifted left so that requantization is one SMMLAR: a product shifted right by less than 32 equals that of a
 * larger number shifted by 32, and the Python code proves that it fits. Cost: 1.3 cycles per element of a window, where
 * windows are wide. scratch: the sums of all channels. */
#include "ge.h"
#include "ge_dsp_average.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

/* Computes all channels of one output. */
static void avgpool_s8_dsp_outputs(const ge_avgpool_params *p, const int32_t *sums, int32_t zero, int32_t multiplier,
                                   int8_t *o) {
    ge_dsp_means(sums, p->channels, zero, 32 - p->shift, multiplier, p->out_zero_point, o);
    if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
        ge_dsp_clamp(o, p->channels, p->lo, p->hi);
    }
}

static void ge_avgpool_s8_dsp(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier,
                              const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    int32_t *const sums = (int32_t *)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const ge_dsp_average a = ge_dsp_average_of(p, x, y, ox, sums);
            avgpool_s8_dsp_outputs(p, sums, a.zero, multiplier[a.entry], o);
            o += p->channels;
        }
    }
}
