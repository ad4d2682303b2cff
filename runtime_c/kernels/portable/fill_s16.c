/* Every int16 of the output becomes one value: the portable truth. */
#include "ge.h"
#include "ge_params.h"

static void ge_fill_s16(const ge_fill_s16_params *p, const ge_rows *out, int32_t first_row, int32_t last_row,
                        void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t i = 0; i < p->count; i++) {
            o[i] = (int16_t)p->value;
        }
    }
}
