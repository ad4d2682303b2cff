/* Requantizes the int32 sums of a whole image to means by 2^-32: Helium. */
#include "ge.h"
#include "ge_mve_pool.h"
#include "ge_params.h"

static void ge_mean_s32_s8_mve(const ge_mean_params *p, const ge_rows *sum, const int32_t *multiplier,
                               const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const ge_mve_mean law = {p->zero, 0, p->out_zero_point, p->lo, p->hi};
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        ge_mve_means(&law, multiplier[0], (const int32_t *)ge_row(sum, y), p->channels, (int8_t *)ge_row(out, y));
    }
}
