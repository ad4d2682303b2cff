/* Multiplies each channel of an int8 tensor by a factor and adds an offset, with one rounding, in portable C. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

static void ge_affine_s8(const ge_affine_params *p, const ge_rows *x, const int32_t *multiplier, const int32_t *offset,
                         const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *v = (const int8_t *)ge_row(x, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t k = 0; k < p->vectors; k++) {
            for (int32_t c = 0; c < p->channels; c++) {
                o[c] = ge_requantize_pair(v[c], 0, multiplier[c], 0, offset[c], p->shift, p->lo, p->hi);
            }
            v += p->channels;
            o += p->channels;
        }
    }
}
