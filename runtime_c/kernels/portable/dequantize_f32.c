/* Integers to float32: (x - zero_point) * scale. */
#include "element_s8.h"
#include "ge.h"
#include "ge_params.h"

static void ge_dequantize_f32(const ge_edge_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                              int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const GE_ELEMENT *row = (const GE_ELEMENT *)ge_row(x, y);
        float *o = (float *)ge_row(out, y);
        for (int32_t i = 0; i < p->row; i++) {
            o[i] = (float)(row[i] - p->zero_point) * p->scale;
        }
    }
}
