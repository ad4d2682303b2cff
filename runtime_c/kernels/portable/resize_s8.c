/* Resizes integers [H, W, C] by weighted sums, whose positions and weights come from tables, in portable C. */
#include "element_s8.h"
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

#define RESIZE_S8_SUM int32_t /* or int64_t, for int16 elements */
#define RESIZE_S8_CLAMPS 0    /* 1: weights may be negative, and results exceed the range of an element */

/* Returns a sum, to which half a step is added already, as an element. */
static inline GE_ELEMENT resize_s8_element(RESIZE_S8_SUM sum, int32_t shift) {
    const RESIZE_S8_SUM y = sum >> shift;
    if (RESIZE_S8_CLAMPS != 0) {
        return (GE_ELEMENT)(y < GE_ELEMENT_LEAST ? GE_ELEMENT_LEAST : (y > GE_ELEMENT_MOST ? GE_ELEMENT_MOST : y));
    }
    return (GE_ELEMENT)y;
}

/* The part of the tables for one output pixel: its rows, and the positions of its columns in a row, in elements. */
typedef struct {
    const int32_t *row_at;
    const int16_t *row_weight;
    const int32_t *at;
    const int16_t *weight;
} resize_s8_tables;

/* Computes the channels of one output pixel from any number of rows and columns. */
static void resize_s8_pixel(const ge_resize_params *p, const ge_rows *x, const resize_s8_tables *t, GE_ELEMENT *o) {
    const RESIZE_S8_SUM half = (RESIZE_S8_SUM)(((uint32_t)1 << p->shift) >> 1);
    for (int32_t c = 0; c < p->channels; c++) {
        RESIZE_S8_SUM total = half;
        for (int32_t i = 0; i < p->taps_h; i++) {
            const GE_ELEMENT *row = (const GE_ELEMENT *)ge_row(x, t->row_at[i]);
            int32_t sum = 0;
            for (int32_t j = 0; j < p->taps_w; j++) {
                sum += t->weight[j] * row[t->at[j] + c];
            }
            total += (RESIZE_S8_SUM)t->row_weight[i] * sum;
        }
        o[c] = resize_s8_element(total, p->shift);
    }
}

/* Computes the channels of one output pixel from two rows and two columns, with the products of their weights. */
static void resize_s8_four(const ge_resize_params *p, const ge_rows *x, const resize_s8_tables *t, GE_ELEMENT *o) {
    const RESIZE_S8_SUM half = (RESIZE_S8_SUM)(((uint32_t)1 << p->shift) >> 1);
    const int32_t shift = p->shift;
    const GE_ELEMENT *above = (const GE_ELEMENT *)ge_row(x, t->row_at[0]);
    const GE_ELEMENT *below = (const GE_ELEMENT *)ge_row(x, t->row_at[1]);
    const GE_ELEMENT *a = above + t->at[0];
    const GE_ELEMENT *b = above + t->at[1];
    const GE_ELEMENT *d = below + t->at[0];
    const GE_ELEMENT *e = below + t->at[1];
    const int32_t of_a = t->row_weight[0] * t->weight[0];
    const int32_t of_b = t->row_weight[0] * t->weight[1];
    const int32_t of_d = t->row_weight[1] * t->weight[0];
    const int32_t of_e = t->row_weight[1] * t->weight[1];
    for (int32_t c = 0; c < p->channels; c++) {
        o[c] = resize_s8_element(half + (RESIZE_S8_SUM)of_a * a[c] + (RESIZE_S8_SUM)of_b * b[c] +
                                     (RESIZE_S8_SUM)of_d * d[c] + (RESIZE_S8_SUM)of_e * e[c],
                                 shift);
    }
}

/* Computes one output row. */
static void resize_s8_row(const ge_resize_params *p, const ge_rows *x, const resize_s8_tables *first, GE_ELEMENT *o) {
    resize_s8_tables t = *first;
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        if (p->shift == 0) {
            memcpy(o, (const GE_ELEMENT *)ge_row(x, t.row_at[0]) + t.at[0], (size_t)p->channels * sizeof(GE_ELEMENT));
        } else if (p->taps_h == 2 && p->taps_w == 2) {
            resize_s8_four(p, x, &t, o);
        } else {
            resize_s8_pixel(p, x, &t, o);
        }
        o += p->channels;
        t.at += p->taps_w;
        t.weight += p->taps_w;
    }
}

static void ge_resize_s8(const ge_resize_params *p, const ge_rows *x, const int32_t *row_at, const int16_t *row_weight,
                         const int32_t *column_at, const int16_t *column_weight, const ge_rows *out, int32_t first_row,
                         int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        GE_ELEMENT *o = (GE_ELEMENT *)ge_row(out, y);
        if (p->shift == 0 && y > first_row && row_at[y] == row_at[y - 1]) {
            memcpy(o, ge_row(out, y - 1), (size_t)(p->out_w * p->channels) * sizeof(GE_ELEMENT));
        } else {
            const resize_s8_tables t = {row_at + y * p->taps_h, row_weight + y * p->taps_h, column_at, column_weight};
            resize_s8_row(p, x, &t, o);
        }
    }
}
