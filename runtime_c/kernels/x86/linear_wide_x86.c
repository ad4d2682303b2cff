/* A rescale to another type, a clip, or a function with a kink at zero, of int16: one multiplier below the zero point
 * and one above it. One source for every level of x86-64. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_ints.h"

/* clang-format off */
#define LINEAR_WIDE_X86_FROM 2 /* bytes of an element of the input */
#define LINEAR_WIDE_X86_TO 2   /* bytes of an element of the output */
/* clang-format on */

static inline GE_X86_INLINE ge_x86_ints linear_wide_x86_of(const ge_linear_s16_params *p, const ge_x86_wide_law *law,
                                                           const uint8_t *from) {
    const ge_x86_ints x = LINEAR_WIDE_X86_FROM == 1 ? ge_x86_octets_at(from) : ge_x86_halves_at(from);
    const ge_x86_ints real = x - ge_x86_ints_all(p->in_zero_point);
    const ge_x86_ints below = ge_x86_ints_all(p->multiplier_below), above = ge_x86_ints_all(p->multiplier_above);
    return ge_x86_scaled(real, ge_x86_by_sign(real, below, above), law);
}

static inline GE_X86_INLINE void linear_wide_x86_store(uint8_t *to, ge_x86_ints y) {
    if (LINEAR_WIDE_X86_TO == 1) {
        ge_x86_store_octets(to, y);
    } else {
        ge_x86_store_halves(to, y);
    }
}

static GE_X86_FN void ge_linear_wide_x86(const ge_linear_s16_params *p, const ge_rows *x, const ge_rows *out,
                                         int32_t first_row, int32_t last_row, void *scratch) {
    const ge_x86_wide_law law = ge_x86_wide_law_of(p->shift, p->out_zero_point, p->lo, p->hi);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const uint8_t *const row = (const uint8_t *)ge_row(x, y);
        uint8_t *const o = (uint8_t *)ge_row(out, y);
        int32_t i = 0;
        for (; i + GE_X86_FLOATS <= p->row; i += GE_X86_FLOATS) {
            linear_wide_x86_store(o + (ptrdiff_t)i * LINEAR_WIDE_X86_TO,
                                  linear_wide_x86_of(p, &law, row + (ptrdiff_t)i * LINEAR_WIDE_X86_FROM));
        }
        if (i < p->row) {
            uint8_t few[64] = {0};
            const size_t count = (size_t)(p->row - i);
            memcpy(few, row + (ptrdiff_t)i * LINEAR_WIDE_X86_FROM, count * LINEAR_WIDE_X86_FROM);
            linear_wide_x86_store(few, linear_wide_x86_of(p, &law, few));
            memcpy(o + (ptrdiff_t)i * LINEAR_WIDE_X86_TO, few, count * LINEAR_WIDE_X86_TO);
        }
    }
}
