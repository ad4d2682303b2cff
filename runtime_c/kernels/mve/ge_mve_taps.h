/* Padded rows of the input and pointers into them, one for each tap, for the windowed Helium kernels.
 *
 * A tap is a contiguous piece of a window: kernel_w columns, or one column. All windows of an output row use the same
 * taps, stride_w * in_c bytes further right from window to window.
 */
#ifndef GE_MVE_TAPS_H
#define GE_MVE_TAPS_H

#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

typedef struct {
    const int8_t **taps; /* taps at column 0; `count` of them, in scratch */
    int8_t *outside;     /* a row of padding */
    int8_t *ring;   /* input row y is in padded row y % span; NULL: no padding at the sides, rows are read in place */
    int32_t across; /* taps in a row of the kernel: 1 or kernel_w */
    int32_t count;  /* taps */
    int32_t row;    /* bytes of a padded row */
    int32_t span;   /* input rows that an output row reads */
    int32_t next;   /* the first row that has not been copied into the ring yet */
} ge_mve_taps;

/* Returns the number of columns that an output row reads, padding included. */
static inline int32_t ge_mve_columns(const ge_conv2d_params *p) {
    return (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
}

/* Prepares the taps. `space` holds the pointers to the taps, then one row of padding and, with padding at the sides,
 * `span` rows. */
static inline ge_mve_taps ge_mve_open(const ge_conv2d_params *p, int32_t across, void *space) {
    ge_mve_taps s;
    s.row = ge_mve_columns(p) * p->in_c;
    s.span = (p->kernel_h - 1) * p->dilation_h + 1;
    s.across = across;
    s.count = p->kernel_h * across;
    s.next = 0;
    s.taps = (const int8_t **)space;
    s.outside = (int8_t *)(s.taps + s.count);
    s.ring = p->pad_left == 0 && ge_mve_columns(p) <= p->in_w ? NULL : s.outside + s.row;
    ge_mve_fill(s.outside, p->in_zero_point, s.row);
    return s;
}

/* Copies a row of the input between its padding. */
static inline void ge_mve_pad(const ge_conv2d_params *p, const int8_t *row, int8_t *to) {
    const int32_t right = ge_mve_columns(p) - p->pad_left;
    const int32_t inside = right < p->in_w ? right : p->in_w;
    ge_mve_fill(to, p->in_zero_point, p->pad_left * p->in_c);
    to += p->pad_left * p->in_c;
    ge_mve_copy(to, row, inside * p->in_c);
    ge_mve_fill(to + inside * p->in_c, p->in_zero_point, (right - inside) * p->in_c);
}

/* Returns input row iy, padded. */
static inline const int8_t *ge_mve_row(const ge_conv2d_params *p, const ge_rows *x, ge_mve_taps *s, int32_t iy) {
    if (iy < 0 || iy >= p->in_h) {
        return s->outside;
    }
    if (s->ring == NULL) {
        return (const int8_t *)ge_row(x, iy);
    }
    int8_t *const padded = s->ring + iy % s->span * s->row;
    if (iy >= s->next) {
        ge_mve_pad(p, (const int8_t *)ge_row(x, iy), padded);
        s->next = p->dilation_h == 1 ? iy + 1 : 0; /* with dilation, the rows in between were not copied */
    }
    return padded;
}

/* Sets the tap pointers for output row y. */
static GE_NOINLINE void ge_mve_point(const ge_conv2d_params *p, const ge_rows *x, ge_mve_taps *s, int32_t y) {
    const int32_t top = y * p->stride_h - p->pad_top;
    const int8_t **tap = s->taps;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int8_t *row = ge_mve_row(p, x, s, top + ky * p->dilation_h);
        for (int32_t kx = 0; kx < s->across; kx++) {
            *tap++ = row + kx * p->dilation_w * p->in_c;
        }
    }
}

#endif
