/* Depthwise convolutions 3x3 with stride 1 for Helium, one channel at a time: its inputs are gathered to a plane, so that
 * vectors hold neighbouring outputs of a line, weights are scalars, and two lines of outputs share loads.
 *
 * Lines are rows, or columns where these are longer. A plane has a fixed distance from line to line, so that the four
 * lines that two lines of outputs read are in reach of one pointer; longer lines and more of them are computed in parts.
 * The padding of a plane is written once for all channels of a part. */
#ifndef GE_MVE_LINES_H
#define GE_MVE_LINES_H

#include "ge.h"
#include "ge_mve.h"

#define GE_MVE_LINES_PITCH 40  /* elements from line to line of a plane, of which the last two are only read */
#define GE_MVE_LINES_MAX 16    /* lines of outputs in a part */
#define GE_MVE_LINES_STEP 9362 /* seven steps fit 16 bits */

/* The lines of a call. */
typedef struct {
    int32_t down;      /* 1: lines are columns */
    int32_t length;    /* outputs of a line */
    int32_t lines;     /* of outputs */
    int32_t first;     /* output row */
    int32_t origin;    /* the input, in a line, of the first tap of the first output */
    int32_t top;       /* the input line of the first tap of the first line */
    int32_t in_length; /* inputs of a line */
    int32_t in_lines;  /* lines of the input */
    int32_t in_step;   /* bytes from input to input of a line */
    int32_t in_pixel;  /* bytes of a pixel of the input */
    int32_t out_step;  /* bytes from output to output of a line */
    int32_t out_pixel; /* bytes of a pixel of the output */
} ge_mve_lines;

/* Part of the lines; all addresses are those of the first channel. */
typedef struct {
    const uint8_t *x[GE_MVE_LINES_MAX + 2]; /* the first inputs of the lines that exist */
    uint8_t *out[GE_MVE_LINES_MAX];         /* the first outputs of the lines */
    int32_t count;                          /* outputs of a line, at most GE_MVE_LINES_PITCH - 2 */
    int32_t lines;                          /* of outputs */
    int32_t inputs;                         /* of a line, that exist */
    int32_t in_lines;                       /* lines of inputs that exist */
    int32_t place;                          /* elements from the plane to the first input that exists */
    int32_t unused;                         /* so that the plane behind begins at a multiple of 16 bytes */
} ge_mve_lines_part;

/* The lines of a call of a kernel with params `p` and elements of `bytes` bytes. */
#define GE_MVE_LINES(p, x, out, first, last, bytes)                                                                    \
    {0,                                                                                                                \
     (p)->out_w,                                                                                                       \
     (last) - (first),                                                                                                 \
     first,                                                                                                            \
     -(p)->pad_left,                                                                                                   \
     (first) - (p)->pad_top,                                                                                           \
     (p)->in_w,                                                                                                        \
     (p)->in_h,                                                                                                        \
     (bytes) * (p)->in_c,                                                                                              \
     (bytes) * (p)->in_c,                                                                                              \
     (bytes) * (p)->out_c,                                                                                             \
     (bytes) * (p)->out_c}

/* Makes lines along rows lines along columns where these are longer. */
static GE_NOINLINE void ge_mve_lines_turn(ge_mve_lines *l, const ge_rows *x, const ge_rows *out, int32_t bytes) {
    const ge_mve_lines r = *l;
    if (r.lines > r.length && x->slots == NULL && out->slots == NULL && x->stride <= bytes * GE_MVE_LINES_STEP) {
        *l = (ge_mve_lines){1,          r.lines,     r.length,  r.first,    r.top,       r.origin,
                            r.in_lines, r.in_length, x->stride, r.in_pixel, out->stride, r.out_pixel};
    }
}

/* Describes outputs at..at+37 of lines `line`..line+15, as far as they exist, at the beginning of scratch. Returns the
 * part; the plane begins behind it. */
static GE_NOINLINE ge_mve_lines_part *ge_mve_lines_part_of(const ge_mve_lines *l, const ge_rows *x, const ge_rows *out,
                                                           int32_t line, int32_t at, void *scratch) {
    ge_mve_lines_part *const part = (ge_mve_lines_part *)scratch;
    const int32_t rest = l->length - at, left = l->lines - line, origin = l->origin + at, top = l->top + line;
    part->count = rest < GE_MVE_LINES_PITCH - 2 ? rest : GE_MVE_LINES_PITCH - 2;
    part->lines = left < GE_MVE_LINES_MAX ? left : GE_MVE_LINES_MAX;
    const int32_t start = origin < 0 ? 0 : origin, above = top < 0 ? 0 : top;
    const int32_t end = origin + part->count + 2, below = top + part->lines + 2;
    part->inputs = (end < l->in_length ? end : l->in_length) - start;
    part->in_lines = (below < l->in_lines ? below : l->in_lines) - above;
    part->place = (above - top) * GE_MVE_LINES_PITCH + start - origin;
    if (part->inputs <= 0) {
        part->in_lines = 0; /* the windows lie in padding */
    }
    for (int32_t i = 0; i < part->in_lines; i++) {
        part->x[i] = l->down ? (const uint8_t *)ge_row(x, start) + (above + i) * l->in_pixel
                             : (const uint8_t *)ge_row(x, above + i) + start * l->in_pixel;
    }
    for (int32_t i = 0; i < part->lines; i++) {
        part->out[i] = l->down ? (uint8_t *)ge_row(out, l->first + at) + (line + i) * l->out_pixel
                               : (uint8_t *)ge_row(out, l->first + line + i) + at * l->out_pixel;
    }
    return part;
}

#endif
