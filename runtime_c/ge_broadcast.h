/* Lines of a row of two operands that broadcast: what the fast kernels of Add and Mul walk. A line is the innermost dim;
 * an operand has one element for all of it, or one for each of its elements. The output is dense. */
#ifndef GE_BROADCAST_H
#define GE_BROADCAST_H

#include "ge.h"

typedef struct {
    const int8_t *a, *b; /* where the line begins in both operands */
    int32_t at[3];       /* steps made in the outer dims */
    int32_t left;        /* lines not begun yet, this one included */
} ge_lines;

static inline ge_lines ge_lines_of(const int8_t *a, const int8_t *b, const int32_t *dims) {
    const ge_lines lines = {a, b, {0, 0, 0}, dims[0] * dims[1] * dims[2]};
    return lines;
}

/* The next line. */
static inline void ge_lines_step(ge_lines *l, const int32_t *dims, const int32_t *strides_a, const int32_t *strides_b) {
    l->left--;
    for (int32_t d = 2; d >= 0; d--) {
        l->a += strides_a[d];
        l->b += strides_b[d];
        if (++l->at[d] < dims[d]) {
            return;
        }
        l->a -= dims[d] * strides_a[d];
        l->b -= dims[d] * strides_b[d];
        l->at[d] = 0;
    }
}

#endif
