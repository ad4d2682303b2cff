/* Product of two int8 tensors of one shape, element by element: one source for every level of x86-64. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_law.h"
#include "ge_x86_line.h"

#define MUL_S8_X86_LAW default

static GE_X86_FN void mul_s8_x86_row(const ge_mul_params *p, const ge_x86_law *law, const int32_t *words,
                                     const float *rows, const int8_t *a, const int8_t *b, int8_t *o) {
    const int32_t form = ge_x86_form(rows);
#define MUL_S8_X86_SIXTEEN(i, count)                                                                                   \
    GE_X86_BY(MUL_S8_X86_LAW, _sums)                                                                                   \
    (ge_x86_product(ge_x86_widened(a + (i), count), ge_x86_widened(b + (i), count), p->zero_point_a, p->zero_point_b), \
     words, rows, form, law)
    GE_X86_LINE(o, p->row, law, ge_x86_store_shorts, MUL_S8_X86_SIXTEEN);
}

static GE_X86_FN void ge_mul_s8_x86(const ge_mul_params *p, const ge_rows *a, const ge_rows *b,
                                    const int32_t *multiplier, const float *scale, const ge_rows *out,
                                    int32_t first_row, int32_t last_row, void *scratch) {
    const ge_x86_law law = ge_x86_law_of(p->shift, p->out_zero_point, p->lo, p->hi);
    int32_t words[16 * GE_X86_WORDS(MUL_S8_X86_LAW)];
    float rows[16 * GE_X86_ROWS(MUL_S8_X86_LAW)];
    (void)scratch;
    ge_x86_spread(words, multiplier, GE_X86_WORDS(MUL_S8_X86_LAW));
    ge_x86_spread(rows, scale, GE_X86_ROWS(MUL_S8_X86_LAW));
    for (int32_t y = first_row; y < last_row; y++) {
        mul_s8_x86_row(p, &law, words, rows, (const int8_t *)ge_row(a, y), (const int8_t *)ge_row(b, y),
                       (int8_t *)ge_row(out, y));
    }
}
