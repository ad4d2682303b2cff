/* Requantizes the int32 sums of a whole image to means by 2^-32, for Cortex-M4, M7 and M33. Cost: 11 cycles each. */
#include "ge.h"
#include "ge_dsp_pool.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

static void ge_mean_s32_s8_dsp(const ge_mean_params *p, const ge_rows *sum, const int32_t *multiplier,
                               const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        ge_dsp_means((const int32_t *)ge_row(sum, y), p->channels, p->zero, 0, multiplier[0], p->out_zero_point, o);
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(o, p->channels, p->lo, p->hi);
        }
    }
}
