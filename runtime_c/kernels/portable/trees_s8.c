/* Ensembles of trees over stored features: the portable truth.
 *
 * The form of a node and the law are those of glowembed/ops/trees.py. The text serves int16 too.
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

#define TREES_S8_ELEMENT int8_t /* or int16_t */

#define TREES_S8_KINDS 8 /* rows of leaves that nodes can name */
#define TREES_S8_LEFT 0x4000u
#define TREES_S8_RIGHT 0x8000u

/* The number of the row of the leaf that is reached from node n, where nodes hold these numbers. */
static uint32_t trees_s8_kind(const TREES_S8_ELEMENT *x, const uint32_t *n) {
    for (;;) {
        const uint32_t w = *n++;
        if (x[w & 127u] <= (int32_t)w >> 16) {
            if ((w & TREES_S8_LEFT) != 0u) {
                return (w >> 7) & 7u;
            }
        } else {
            if ((w & TREES_S8_RIGHT) != 0u) {
                return (w >> 10) & 7u;
            }
            if ((w & TREES_S8_LEFT) == 0u) {
                n += (w >> 7) & 127u;
            }
        }
    }
}

/* The number of the leaf that is reached from node n, counted from left to right. */
static uint32_t trees_s8_leaf(const TREES_S8_ELEMENT *x, const uint32_t *n) {
    uint32_t leaf = 0;
    for (;;) {
        const uint32_t w = *n++;
        if (x[w & 127u] <= (int32_t)w >> 16) {
            if ((w & TREES_S8_LEFT) != 0u) {
                return leaf;
            }
        } else {
            const uint32_t left = (w >> 7) & 127u;
            leaf += 1u + left;
            if ((w & TREES_S8_RIGHT) != 0u) {
                return leaf;
            }
            n += left;
        }
    }
}

/* sums += times * row */
static void trees_s8_add(int32_t *sums, const int32_t *row, int32_t columns, int32_t times) {
    for (int32_t c = 0; c < columns; c++) {
        sums[c] += times * row[c];
    }
}

/* The sums of a sample; sums begin with the base values. Behind them there is room to count rows. */
static void trees_s8_sums(const ge_trees_params *p, const TREES_S8_ELEMENT *x, const uint32_t *nodes,
                          const uint32_t *starts, const uint16_t *leaves, const int32_t *rows, int32_t *sums) {
    int32_t *const count = sums + p->columns;
    if (p->kinds == 0) {
        for (int32_t t = 0; t < p->trees; t++) {
            const uint32_t leaf = starts[t] + (uint32_t)t + trees_s8_leaf(x, nodes + starts[t]);
            trees_s8_add(sums, rows + (int32_t)leaves[leaf] * p->columns, p->columns, 1);
        }
        return;
    }
    for (int32_t k = 0; k < TREES_S8_KINDS; k++) {
        count[k] = 0;
    }
    for (int32_t t = 0; t < p->trees; t++) {
        count[trees_s8_kind(x, nodes + starts[t])]++;
    }
    for (int32_t k = 0; k < p->kinds; k++) {
        trees_s8_add(sums, rows + k * p->columns, p->columns, count[k]);
    }
}

static void ge_trees_s8(const ge_trees_params *p, const ge_rows *x, const uint32_t *nodes, const uint32_t *starts,
                        const uint16_t *leaves, const int32_t *table, const ge_rows *out, int32_t first_row,
                        int32_t last_row, void *scratch) {
    int32_t *const sums = (int32_t *)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const TREES_S8_ELEMENT *v = (const TREES_S8_ELEMENT *)ge_row(x, y);
        TREES_S8_ELEMENT *o = (TREES_S8_ELEMENT *)ge_row(out, y);
        for (int32_t c = 0; c < p->columns; c++) {
            sums[c] = table[c];
        }
        trees_s8_sums(p, v, nodes, starts, leaves, table + p->columns, sums);
        for (int32_t c = 0; c < p->columns; c++) {
            const int64_t product = (int64_t)sums[c] * p->multiplier + ((int64_t)1 << (p->shift - 1));
            const int64_t value = (product >> p->shift) + p->zero_point;
            o[c] = (TREES_S8_ELEMENT)(value < p->lo ? p->lo : (value > p->hi ? p->hi : value));
        }
    }
}
