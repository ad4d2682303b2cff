/* Sum of two int8 tensors that broadcast to one shape by the laws of other engines, which round each operand separately
 * or treat halves differently: one source for every level of x86-64.
 *
 * The sum is computed in floats; glowembed/kernels/x86/elementwise.py compares it with the law for every pair of
 * operands. */
#include "ge.h"
#include "ge_broadcast.h"
#include "ge_law_tflite.h"
#include "ge_params.h"
#include "ge_x86_line.h"

#define ADD_EACH_S8_X86_APART 0 /* whether each operand is rounded separately, halves up */

/* Computes one element after the other, for a level without vectors. */
static GE_X86_FN void add_each_s8_x86_integers(const ge_add_each_params *p, const int32_t *words, const ge_lines *l) {
    for (int32_t i = 0; i < p->dims[3]; i++) {
        const int32_t a = l->a[i * p->strides_a[3]] - p->zero_point_a, b = l->b[i * p->strides_b[3]] - p->zero_point_b;
        l->out[i] = ge_requantize_each(a, b, words, p->out_zero_point, p->lo, p->hi);
    }
}

static GE_X86_FN void add_each_s8_x86_line(const ge_add_each_params *p, const ge_x86_law *law, const float *factors,
                                           const ge_lines *l) {
    ge_x86_operand a, b;
    ge_x86_operand_is(&a, l->a, p->strides_a[3]);
    ge_x86_operand_is(&b, l->b, p->strides_b[3]);
#define ADD_EACH_S8_X86_SIXTEEN(i, count)                                                                              \
    ge_x86_float_sum(ge_x86_operand_at(&a, i, count), ge_x86_operand_at(&b, i, count), p->zero_point_a,                \
                     p->zero_point_b, factors, ADD_EACH_S8_X86_APART, law)
    GE_X86_LINE(l->out, p->dims[3], law, ge_x86_store, ADD_EACH_S8_X86_SIXTEEN);
}

static GE_X86_FN void ge_add_each_s8_x86(const ge_add_each_params *p, const ge_rows *a, const ge_rows *b,
                                         const int32_t *words, const float *factors, const ge_rows *out,
                                         int32_t first_row, int32_t last_row, void *scratch) {
    const ge_x86_law law = ge_x86_law_of(1, p->out_zero_point, p->lo, p->hi);
    (void)scratch;
    for (ge_lines l = GE_LINES(p, a, b, out, first_row, last_row); ge_lines_more(&l); ge_lines_step(&l)) {
        if (GE_X86_FLOATS == 1) {
            add_each_s8_x86_integers(p, words, &l);
        } else {
            add_each_s8_x86_line(p, &law, factors, &l);
        }
    }
}
