/* Product of two int8 tensors that broadcast to one shape: one source for every level of x86-64. */
#include "ge.h"
#include "ge_broadcast.h"
#include "ge_params.h"
#include "ge_x86_law.h"
#include "ge_x86_line.h"

#define MUL_BROADCAST_S8_X86_LAW default

static GE_X86_FN void mul_broadcast_s8_x86_line(const ge_mul_broadcast_params *p, const ge_x86_law *law,
                                                const int32_t *words, const float *rows, const ge_lines *l) {
    const int32_t form = ge_x86_form(rows);
    ge_x86_operand a, b;
    ge_x86_operand_is(&a, l->a, p->strides_a[3]);
    ge_x86_operand_is(&b, l->b, p->strides_b[3]);
#define MUL_BROADCAST_S8_X86_SIXTEEN(i, count)                                                                         \
    GE_X86_BY(MUL_BROADCAST_S8_X86_LAW, _sums)                                                                         \
    (ge_x86_product(ge_x86_operand_at(&a, i, count), ge_x86_operand_at(&b, i, count), p->zero_point_a,                 \
                    p->zero_point_b),                                                                                  \
     words, rows, form, law)
    GE_X86_LINE(l->out, p->dims[3], law, ge_x86_store_shorts, MUL_BROADCAST_S8_X86_SIXTEEN);
}

static GE_X86_FN void ge_mul_broadcast_s8_x86(const ge_mul_broadcast_params *p, const ge_rows *a, const ge_rows *b,
                                              const int32_t *multiplier, const float *scale, const ge_rows *out,
                                              int32_t first_row, int32_t last_row, void *scratch) {
    const ge_x86_law law = ge_x86_law_of(p->shift, p->out_zero_point, p->lo, p->hi);
    int32_t words[16 * GE_X86_WORDS(MUL_BROADCAST_S8_X86_LAW)];
    float rows[16 * GE_X86_ROWS(MUL_BROADCAST_S8_X86_LAW)];
    (void)scratch;
    ge_x86_spread(words, multiplier, GE_X86_WORDS(MUL_BROADCAST_S8_X86_LAW));
    ge_x86_spread(rows, scale, GE_X86_ROWS(MUL_BROADCAST_S8_X86_LAW));
    for (ge_lines l = GE_LINES(p, a, b, out, first_row, last_row); ge_lines_more(&l); ge_lines_step(&l)) {
        mul_broadcast_s8_x86_line(p, &law, words, rows, &l);
    }
}
