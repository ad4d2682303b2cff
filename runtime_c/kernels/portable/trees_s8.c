/* Evaluates an ensemble of decision trees on quantized features, in portable C.
 *
 * glowembed/ops/trees.py defines the form of a node and the arithmetic. This file also makes the kernel for int16.
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

#define TREES_S8_ELEMENT int8_t /* or int16_t */
#define TREES_S8_ROW int16_t    /* or uint8_t for shares, or uint16_t for two shares */
#define TREES_S8_TWO 0          /* 1 if a row is two shares, which may lie in the word after a pair of leaves */
#define TREES_S8_BITS 7         /* bits of a node's feature number */

#define TREES_S8_KINDS 8 /* the most rows that are counted before they are added */
#define TREES_S8_LEFT 0x4000u
#define TREES_S8_RIGHT 0x8000u
#define TREES_S8_BOTH (TREES_S8_LEFT | TREES_S8_RIGHT)
#define TREES_S8_LARGEST ((1u << (14 - TREES_S8_BITS)) - 1u)
#define TREES_S8_HALF ((14 - TREES_S8_BITS) / 2)

/* Returns the number of the row of the leaf that node n leads to, or the row itself if rows are two shares. */
static uint32_t trees_s8_row(const TREES_S8_ELEMENT *x, const uint32_t *n, const TREES_S8_ROW *rows) {
    uint32_t w, right;
    for (;; n++) {
        w = *n;
        if (x[w & ((1u << TREES_S8_BITS) - 1u)] <= (int32_t)w >> 16) {
            if ((w & TREES_S8_LEFT) != 0u) {
                right = 0;
                break;
            }
        } else {
            if ((w & TREES_S8_RIGHT) != 0u) {
                right = 1;
                break;
            }
            if ((w & TREES_S8_LEFT) == 0u) {
                n += (w >> TREES_S8_BITS) & TREES_S8_LARGEST;
            }
        }
    }
    uint32_t number = (w >> TREES_S8_BITS) & TREES_S8_LARGEST;
    if ((w & TREES_S8_BOTH) == TREES_S8_BOTH) {
        if (number == TREES_S8_LARGEST) {
            return (n[1] >> (16u * right)) & 0xFFFFu;
        }
        number = (number >> (TREES_S8_HALF * right)) & ((1u << TREES_S8_HALF) - 1u);
    }
    return TREES_S8_TWO != 0 ? (uint32_t)rows[number] : number;
}

/* sums += times * row */
static void trees_s8_add(int32_t *sums, const TREES_S8_ROW *row, int32_t columns, int32_t times) {
    for (int32_t c = 0; c < columns; c++) {
        sums[c] += times * row[c];
    }
}

/* Computes the sums of a sample, which begin with the base values. The counts of rows lie after the sums. */
static void trees_s8_sums(const ge_trees_params *p, const TREES_S8_ELEMENT *x, const uint32_t *nodes,
                          const uint32_t *starts, const TREES_S8_ROW *rows, int32_t *sums) {
    int32_t *const count = sums + p->columns;
    if (TREES_S8_TWO != 0) {
        int32_t first = 0, second = 0;
        for (int32_t t = 0; t < p->trees; t++) {
            const int32_t row = (int32_t)trees_s8_row(x, nodes + starts[t], rows);
            first += row & 255;
            second += row >> 8;
        }
        sums[0] += first;
        sums[p->stored - 1] += second;
    } else if (p->kinds == 0) {
        for (int32_t t = 0; t < p->trees; t++) {
            const TREES_S8_ROW *row = rows + (int32_t)trees_s8_row(x, nodes + starts[t], rows) * p->stored;
            trees_s8_add(sums, row, p->stored, 1);
        }
    } else {
        for (int32_t k = 0; k < TREES_S8_KINDS; k++) {
            count[k] = 0;
        }
        for (int32_t t = 0; t < p->trees; t++) {
            count[trees_s8_row(x, nodes + starts[t], rows)]++;
        }
        for (int32_t k = 0; k < p->kinds; k++) {
            trees_s8_add(sums, rows + k * p->stored, p->stored, count[k]);
        }
    }
    if (p->stored < p->columns) {
        for (int32_t c = 0; c < p->stored; c++) {
            sums[p->stored] -= sums[c];
        }
    }
}

static void ge_trees_s8(const ge_trees_params *p, const ge_rows *x, const uint32_t *nodes, const uint32_t *starts,
                        const TREES_S8_ROW *rows, const int32_t *base, const ge_rows *out, int32_t first_row,
                        int32_t last_row, void *scratch) {
    int32_t *const sums = (int32_t *)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const TREES_S8_ELEMENT *v = (const TREES_S8_ELEMENT *)ge_row(x, y);
        TREES_S8_ELEMENT *o = (TREES_S8_ELEMENT *)ge_row(out, y);
        for (int32_t c = 0; c < p->columns; c++) {
            sums[c] = base[c];
        }
        trees_s8_sums(p, v, nodes, starts, rows, sums);
        for (int32_t c = 0; c < p->columns; c++) {
            const int64_t product = (int64_t)sums[c] * p->multiplier + ((int64_t)1 << (p->shift - 1));
            const int64_t value = (product >> p->shift) + p->zero_point;
            o[c] = (TREES_S8_ELEMENT)(value < p->lo ? p->lo : (value > p->hi ? p->hi : value));
        }
    }
}
