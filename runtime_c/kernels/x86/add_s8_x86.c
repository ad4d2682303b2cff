/* Sum of two int8 tensors of one shape, element by element: one text for every level of x86-64. 64 elements at a time. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_portable.h"

/* Up to 16 outputs, not clamped. */
static inline GE_X86_INLINE ge_x86_sums add_s8_x86_sixteen(const ge_add_params *p, const int8_t *a, const int8_t *b,
                                                           int32_t count, const int32_t wide) {
    const ge_x86_sums x = ge_x86_widened(a, count), y = ge_x86_widened(b, count);
    return ge_x86_pair(x, y, p->multiplier_a, p->multiplier_b, p->offset, p->shift, wide);
}

static inline GE_X86_INLINE void add_s8_x86_row(const ge_add_params *p, const ge_x86_law *law, const int8_t *a,
                                                const int8_t *b, int8_t *o, const int32_t wide) {
    int32_t i = 0;
    for (; i + 64 <= p->row; i += 64) {
        int8_t *const to[4] = {o + i, o + i + 16, o + i + 32, o + i + 48};
        ge_x86_sums y[4];
        GE_X86_UNROLL
        for (int32_t k = 0; k < 4; k++) {
            y[k] = add_s8_x86_sixteen(p, a + i + 16 * k, b + i + 16 * k, 16, wide);
        }
        ge_x86_store4(to, y, 1, law);
    }
    for (; i < p->row; i += 16) {
        const int32_t count = p->row - i < 16 ? p->row - i : 16;
        ge_x86_store1(o + i, add_s8_x86_sixteen(p, a + i, b + i, count, wide), count, law);
    }
}

static GE_X86_FN void ge_add_s8_x86(const ge_add_params *p, const ge_rows *a, const ge_rows *b, const ge_rows *out,
                                    int32_t first_row, int32_t last_row, void *scratch) {
    const ge_x86_law law = ge_x86_law_of(1, 0, p->lo, p->hi);
    const int32_t a16 = p->multiplier_a == (int16_t)p->multiplier_a, b16 = p->multiplier_b == (int16_t)p->multiplier_b;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *const left = (const int8_t *)ge_row(a, y), *const right = (const int8_t *)ge_row(b, y);
        if (a16 && b16) {
            add_s8_x86_row(p, &law, left, right, (int8_t *)ge_row(out, y), 0);
        } else {
            add_s8_x86_row(p, &law, left, right, (int8_t *)ge_row(out, y), 1);
        }
    }
}
