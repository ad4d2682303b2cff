/* Float32 to integers: clamp(round(x / scale) + zero_point), halves to even; NaN gives the zero point. */
#include "element_s8.h"
#include "ge.h"
#include "ge_params.h"
#include "ge_quantize.h"

static void ge_quantize_f32(const ge_edge_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                            int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const float *row = (const float *)ge_row(x, y);
        GE_ELEMENT *o = (GE_ELEMENT *)ge_row(out, y);
        for (int32_t i = 0; i < p->row; i++) {
            o[i] = (GE_ELEMENT)ge_quantize(row[i], p->scale, p->zero_point, GE_ELEMENT_LEAST, GE_ELEMENT_MOST);
        }
    }
}
