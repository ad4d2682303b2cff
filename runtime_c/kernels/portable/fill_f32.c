/* Every float32 of the output becomes one value: the portable truth. */
#include "ge.h"
#include "ge_params.h"

static void ge_fill_f32(const ge_fill_f32_params *p, const ge_rows *out, int32_t first_row, int32_t last_row,
                        void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        float *o = (float *)ge_row(out, y);
        for (int32_t i = 0; i < p->count; i++) {
            o[i] = p->value;
        }
    }
}
