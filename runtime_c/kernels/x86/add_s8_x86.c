/* Sum of two int8 tensors of one shape, element by element: one source for every level of x86-64. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_line.h"

static inline GE_X86_INLINE void add_s8_x86_row(const ge_add_params *p, const ge_x86_law *law, const int8_t *a,
                                                const int8_t *b, int8_t *o, const int32_t wide) {
#define ADD_S8_X86_SIXTEEN(i, count)                                                                                   \
    ge_x86_pair(ge_x86_widened(a + (i), count), ge_x86_widened(b + (i), count), p->multiplier_a, p->multiplier_b,      \
                p->offset, p->shift, wide)
    GE_X86_LINE(o, p->row, law, ge_x86_store, ADD_S8_X86_SIXTEEN);
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
