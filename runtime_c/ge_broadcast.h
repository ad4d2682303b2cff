/* Walks the lines of two operands that broadcast, for the fast kernels of Add and Mul. A line is the innermost
 * dimension of a row. An operand has either one element for the whole line or one for each element of it. The output is
 * dense.
 *
 *     ge_lines lines = GE_LINES(p, a, b, out, first_row, last_row);
 *     for (; ge_lines_more(&lines); ge_lines_step(&lines)) { lines.a, lines.b, lines.out: one line }
 */
#ifndef GE_BROADCAST_H
#define GE_BROADCAST_H

#include "ge.h"

typedef struct {
    const int32_t *dims, *strides_a, *strides_b; /* of a row */
    int32_t step_a, step_b;                      /* 1, or 0 if one row of the operand serves all rows of the output */
    const ge_rows *rows_a, *rows_b, *rows_out;
    int32_t row, last_row;
    int32_t at[3];       /* steps made in the outer dims */
    const int8_t *a, *b; /* where the line begins in each operand */
    int8_t *out;
} ge_lines;

/* p: any params struct with the loops of Broadcasting (glowembed/ops/shared). */
#define GE_LINES(p, x, y, to, first, last)                                                                             \
    ge_lines_of((p)->dims, (p)->strides_a, (p)->strides_b, (p)->row_step_a, (p)->row_step_b, x, y, to, first, last)

static inline int32_t ge_lines_more(const ge_lines *l) {
    return l->row < l->last_row;
}

/* Goes to the first line of a row. */
static inline void ge_lines_row(ge_lines *l) {
    if (ge_lines_more(l)) {
        l->a = (const int8_t *)ge_row(l->rows_a, l->row * l->step_a);
        l->b = (const int8_t *)ge_row(l->rows_b, l->row * l->step_b);
        l->out = (int8_t *)ge_row(l->rows_out, l->row);
    }
}

static inline ge_lines ge_lines_of(const int32_t *dims, const int32_t *strides_a, const int32_t *strides_b,
                                   int32_t step_a, int32_t step_b, const ge_rows *a, const ge_rows *b,
                                   const ge_rows *out, int32_t first_row, int32_t last_row) {
    ge_lines l = {dims, strides_a, strides_b, step_a,    step_b, a,    b,
                  out,  first_row, last_row,  {0, 0, 0}, NULL,   NULL, NULL};
    ge_lines_row(&l);
    return l;
}

static inline void ge_lines_step(ge_lines *l) {
    l->out += l->dims[3];
    for (int32_t d = 2; d >= 0; d--) {
        l->a += l->strides_a[d];
        l->b += l->strides_b[d];
        if (++l->at[d] < l->dims[d]) {
            return;
        }
        l->a -= l->dims[d] * l->strides_a[d];
        l->b -= l->dims[d] * l->strides_b[d];
        l->at[d] = 0;
    }
    l->row++;
    ge_lines_row(l);
}

#endif
