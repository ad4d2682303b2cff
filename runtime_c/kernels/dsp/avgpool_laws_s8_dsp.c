/* Mean of each window of int8 [H, W, C], C at least 4, for any law and any shift, for Cortex-M4, M7 and M33.
 *
 * The sums are those of avgpool_s8_dsp, the requantization is C code with the law of ge_law.h, so one source serves all
 * laws. avgpool_s8_dsp is not made from it, because SMMLAR requantizes a mean by the default law in 11 cycles, and this
 * code takes 35. scratch: the sums of all channels. */
#include "ge.h"
#include "ge_dsp_average.h"
#include "ge_law.h"
#include "ge_params.h"

/* Computes all channels of one output. It reads the params first, because the compiler must assume that outputs may
 * change them. */
static void avgpool_laws_s8_dsp_outputs(const ge_avgpool_params *p, const int32_t *sums, int32_t zero,
                                        const int32_t *multiplier, int32_t entry, int8_t *o) {
    const int32_t shift = p->shift, zero_point = p->out_zero_point, lo = p->lo, hi = p->hi;
    const int32_t *const end = sums + p->channels;
    while (sums < end) {
        *o++ = ge_requantize(*sums++ - zero, multiplier, entry, shift, zero_point, lo, hi);
    }
}

static void ge_avgpool_laws_s8_dsp(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier,
                                   const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    int32_t *const sums = (int32_t *)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const ge_dsp_average a = ge_dsp_average_of(p, x, y, ox, sums);
            avgpool_laws_s8_dsp_outputs(p, sums, a.zero, multiplier, a.entry, o);
            o += p->channels;
        }
    }
}
