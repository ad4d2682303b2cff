/* Walks the runs of a block that has strides in its input and output, for the fast copies. All runs lie along the same
 * dimension; which one makes no difference to the result.
 *
 *     const int32_t along = ge_runs_dim(p);
 *     ge_runs runs = ge_runs_of(p, x, y);
 *     for (; runs.more; ge_runs_step(&runs, p, along)) { one run along that dim begins at runs.x and runs.y }
 */
#ifndef GE_RUNS_H
#define GE_RUNS_H

#include "ge.h"
#include "ge_params.h"

#define GE_RUNS_PIECE 8 /* a contiguous run of at least this many bytes is always taken */

typedef struct {
    const int8_t *x;
    int8_t *y;
    int32_t at[5]; /* steps made in each dim */
    int32_t more;
} ge_runs;

/* Returns whether the block is one piece of contiguous bytes that is copied unchanged. */
static inline int32_t ge_runs_one_piece(const ge_copy_params *p) {
    const int32_t outer = p->dims[0] | p->dims[1] | p->dims[2] | p->dims[3];
    return outer == 1 && p->in_strides[4] == 1 && p->out_strides[4] == 1 && p->shift == 0;
}

/* Returns the dimension for the runs: the innermost if it is contiguous on both sides and long enough, else the
 * longest. */
static inline int32_t ge_runs_dim(const ge_copy_params *p) {
    int32_t longest = 4;
    if (p->in_strides[4] == 1 && p->out_strides[4] == 1 && p->dims[4] >= GE_RUNS_PIECE) {
        return longest;
    }
    for (int32_t d = 3; d >= 0; d--) {
        longest = p->dims[d] > p->dims[longest] ? d : longest;
    }
    return longest;
}

/* x and y are the first elements of the tensors. */
static inline ge_runs ge_runs_of(const ge_copy_params *p, const int8_t *x, int8_t *y) {
    const ge_runs runs = {x + p->in_offset, y + p->out_offset, {0, 0, 0, 0, 0}, 1};
    return runs;
}

/* Advances the other dimensions, the innermost fastest. */
static inline void ge_runs_step(ge_runs *r, const ge_copy_params *p, int32_t along) {
    for (int32_t d = 4; d >= 0; d--) {
        if (d == along) {
            continue;
        }
        r->x += p->in_strides[d];
        r->y += p->out_strides[d];
        if (++r->at[d] < p->dims[d]) {
            return;
        }
        r->x -= p->dims[d] * p->in_strides[d];
        r->y -= p->dims[d] * p->out_strides[d];
        r->at[d] = 0;
    }
    r->more = 0;
}

#endif
