/* Mean of each window of int8 [H, W, C], for any law and any shift: Helium.
 *
 * It sums 16 channels at a time; the requantization is C code with the law of ge_law.h, so one source serves all laws.
 * avgpool_s8_mve is not made from it, because that kernel requantizes four means at once with VRMULH, in 4 cycles each
 * under the default law; this one takes 20 cycles. scratch: a pointer for each row of the kernel, a sum for each
 * channel.
 */
#include "ge.h"
#include "ge_law.h"
#include "ge_mve_average.h"
#include "ge_params.h"

static void ge_avgpool_laws_s8_mve(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier,
                                   const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        ge_mve_window w = ge_mve_windows_of(p, x, y, scratch);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            ge_mve_window_sum(p, &w, ox);
            for (int32_t c = 0; c < p->channels; c++) {
                *o++ = ge_requantize(w.sums[c] - w.zero, multiplier, w.multiplier, p->shift, p->out_zero_point, p->lo,
                                     p->hi);
            }
        }
    }
}
