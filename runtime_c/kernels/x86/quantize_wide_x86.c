/* float32 to integers, clamp(round(x / scale) + zero_point), ties to even, NaN gives the zero point; and integers to
 * float32, (x - zero_point) * scale: one source for every level of x86-64. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_ints.h"

/* clang-format off */
#define QUANTIZE_WIDE_X86_FROM 4 /* bytes of an element of the input: 4 of float32, 2 of int16, 1 of int8 */
#define QUANTIZE_WIDE_X86_TO 1   /* bytes of an element of the output */
/* clang-format on */

/* Limits are integers, so the clamp may come first; NaN stays NaN until then. */
static inline GE_X86_INLINE ge_x86_ints quantize_wide_x86_of(const ge_edge_params *p, ge_x86_ints x) {
    const ge_x86_ints zero = ge_x86_ints_all(p->zero_point);
    const ge_x86_floats scale = ge_x86_floats_all(p->scale);
    const int32_t least = QUANTIZE_WIDE_X86_TO == 1 ? INT8_MIN : INT16_MIN, most = -1 - least;
    const ge_x86_floats lo = ge_x86_floats_all((float)(least - p->zero_point));
    const ge_x86_floats hi = ge_x86_floats_all((float)(most - p->zero_point));
    if (QUANTIZE_WIDE_X86_FROM == 4) {
        const ge_x86_floats steps = ge_x86_as_floats(x) / scale;
        return ge_x86_nearest_ints(ge_x86_smaller(hi, ge_x86_larger(lo, steps))) + zero;
    }
    return ge_x86_as_ints(ge_x86_floats_of(x - zero) * scale);
}

static GE_X86_FN void ge_quantize_wide_x86(const ge_edge_params *p, const ge_rows *x, const ge_rows *out,
                                           int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const uint8_t *row = (const uint8_t *)ge_row(x, y);
        uint8_t *o = (uint8_t *)ge_row(out, y);
        int32_t left = p->row;
        for (; left >= GE_X86_FLOATS; left -= GE_X86_FLOATS) {
            ge_x86_store_elements(o, quantize_wide_x86_of(p, ge_x86_elements_at(row, QUANTIZE_WIDE_X86_FROM)),
                                  QUANTIZE_WIDE_X86_TO);
            row += GE_X86_FLOATS * QUANTIZE_WIDE_X86_FROM;
            o += GE_X86_FLOATS * QUANTIZE_WIDE_X86_TO;
        }
        if (left > 0) {
            const ge_x86_ints few = ge_x86_some_elements_at(row, left, QUANTIZE_WIDE_X86_FROM);
            ge_x86_store_some_elements(o, quantize_wide_x86_of(p, few), left, QUANTIZE_WIDE_X86_TO);
        }
    }
}
