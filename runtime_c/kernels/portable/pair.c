/* A function of two tensors that broadcast to one shape, in portable C. pair_<function>_<type>.h defines it as
 * GE_PAIR. */
#include "ge.h"
#include "ge_params.h"
#include "pair_add_f32.h"

/* Computes the innermost dimension. */
static void pair_line(const GE_PAIR_PARAMS *p, const GE_ELEMENT *a, const GE_ELEMENT *b, GE_ELEMENT *o) {
    for (int32_t i = 0; i < p->dims[3]; i++) {
        o[i] = GE_PAIR(p, *a, *b);
        a += p->strides_a[3];
        b += p->strides_b[3];
    }
}

/* Computes one row. The output is dense, so it is written in the order of the loops. */
static void pair_row(const GE_PAIR_PARAMS *p, const GE_ELEMENT *a, const GE_ELEMENT *b, GE_ELEMENT *o) {
    const int32_t *sa = p->strides_a;
    const int32_t *sb = p->strides_b;
    for (int32_t i = 0; i < p->dims[0]; i++) {
        for (int32_t j = 0; j < p->dims[1]; j++) {
            for (int32_t k = 0; k < p->dims[2]; k++) {
                const GE_ELEMENT *line_a = a + i * sa[0] + j * sa[1] + k * sa[2];
                const GE_ELEMENT *line_b = b + i * sb[0] + j * sb[1] + k * sb[2];
                pair_line(p, line_a, line_b, o);
                o += p->dims[3];
            }
        }
    }
}

static void ge_pair(const GE_PAIR_PARAMS *p, const ge_rows *a, const ge_rows *b, const ge_rows *out, int32_t first_row,
                    int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const GE_ELEMENT *row_a = (const GE_ELEMENT *)ge_row(a, y * p->row_step_a);
        const GE_ELEMENT *row_b = (const GE_ELEMENT *)ge_row(b, y * p->row_step_b);
        pair_row(p, row_a, row_b, (GE_ELEMENT *)ge_row(out, y));
    }
}
