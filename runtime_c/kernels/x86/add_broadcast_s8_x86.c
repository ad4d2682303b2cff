/* Sum of two int8 tensors that broadcast to one shape: one source for every level of x86-64. */
#include "ge.h"
#include "ge_broadcast.h"
#include "ge_params.h"
#include "ge_x86_line.h"

static inline GE_X86_INLINE void add_broadcast_s8_x86_line(const ge_add_broadcast_params *p, const ge_x86_law *law,
                                                           const ge_lines *l, const int32_t wide) {
    ge_x86_operand a, b;
    ge_x86_operand_is(&a, l->a, p->strides_a[3]);
    ge_x86_operand_is(&b, l->b, p->strides_b[3]);
#define ADD_BROADCAST_S8_X86_SIXTEEN(i, count)                                                                         \
    ge_x86_pair(ge_x86_operand_at(&a, i, count), ge_x86_operand_at(&b, i, count), p->multiplier_a, p->multiplier_b,    \
                p->offset, p->shift, wide)
    GE_X86_LINE(l->out, p->dims[3], law, ge_x86_store, ADD_BROADCAST_S8_X86_SIXTEEN);
}

static GE_X86_FN void ge_add_broadcast_s8_x86(const ge_add_broadcast_params *p, const ge_rows *a, const ge_rows *b,
                                              const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const ge_x86_law law = ge_x86_law_of(1, 0, p->lo, p->hi);
    const int32_t a16 = p->multiplier_a == (int16_t)p->multiplier_a, b16 = p->multiplier_b == (int16_t)p->multiplier_b;
    (void)scratch;
    for (ge_lines l = GE_LINES(p, a, b, out, first_row, last_row); ge_lines_more(&l); ge_lines_step(&l)) {
        if (a16 && b16) {
            add_broadcast_s8_x86_line(p, &law, &l, 0);
        } else {
            add_broadcast_s8_x86_line(p, &law, &l, 1);
        }
    }
}
