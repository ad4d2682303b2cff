/* Largest element of each window of int8 [H, W, C]: one source for every level of x86-64.
 *
 * The rows of a window are first reduced to one row of maxima, with all columns and channels in vectors; an output row
 * then takes the largest of the columns of that row. Padding holds the lowest number.
 */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_portable.h"

/* Computes the largest of `sources` rows; small numbers of sources are constants. */
static GE_X86_FN void maxpool_s8_x86_of(int8_t *to, const int8_t *const *from, int32_t sources, int32_t count) {
    if (sources == 3) {
        ge_x86_largest(to, from, 3, count);
    } else if (sources == 2) {
        ge_x86_largest(to, from, 2, count);
    } else {
        ge_x86_largest(to, from, sources, count);
    }
}

/* Computes the largest of the input rows from `top` on that exist, after `left` elements of padding. */
static GE_X86_FN void maxpool_s8_x86_rows(const ge_pool_params *p, const ge_rows *x, int32_t top, int32_t columns,
                                          const int8_t **from, int8_t *to) {
    const int32_t left = p->pad_left < columns ? p->pad_left : columns;
    const int32_t inside = p->in_w < columns - left ? p->in_w : columns - left;
    int32_t sources = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = top + ky * p->dilation_h;
        if (iy >= 0 && iy < p->in_h) {
            from[sources++] = (const int8_t *)ge_row(x, iy);
        }
    }
    const int32_t middle = sources > 0 ? inside * p->channels : 0;
    memset(to, INT8_MIN, (size_t)(left * p->channels));
    maxpool_s8_x86_of(to + left * p->channels, from, sources, middle);
    const int32_t done = left * p->channels + middle;
    memset(to + done, INT8_MIN, (size_t)(columns * p->channels - done));
}

/* Computes an output row, whose pixels are the largest of `sources` columns of a row, a constant, or of any number of
 * columns if 0. */
static inline GE_X86_INLINE void maxpool_s8_x86_columns(const ge_pool_params *p, const int8_t *row, const int8_t **from,
                                                        int8_t *o, const int32_t sources) {
    const int32_t step = p->stride_w * p->channels, apart = p->dilation_w * p->channels;
    const int32_t few = sources > 0 ? sources : p->kernel_w;
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        for (int32_t kx = 0; kx < few; kx++) {
            from[kx] = row + kx * apart;
        }
        ge_x86_largest(o, from, few, p->channels);
        row += step;
        o += p->channels;
    }
}

/* Does the same for kernels of two and three columns, whose columns are in registers. */
static GE_X86_FN void maxpool_s8_x86_across(const ge_pool_params *p, const int8_t *row, const int8_t **from,
                                            int8_t *o) {
    const int8_t *few[3];
    if (p->kernel_w == 3) {
        maxpool_s8_x86_columns(p, row, few, o, 3);
    } else if (p->kernel_w == 2) {
        maxpool_s8_x86_columns(p, row, few, o, 2);
    } else {
        maxpool_s8_x86_columns(p, row, from, o, 0);
    }
}

static GE_X86_FN void ge_maxpool_s8_x86(const ge_pool_params *p, const ge_rows *x, const ge_rows *out,
                                        int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t columns = (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
    const int8_t **const from = (const int8_t **)scratch;
    int8_t *const row = (int8_t *)(from + (p->kernel_h > p->kernel_w ? p->kernel_h : p->kernel_w));
    const int32_t apart = p->dilation_w * p->channels;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        maxpool_s8_x86_rows(p, x, y * p->stride_h - p->pad_top, columns, from, row);
        for (int32_t kx = 0; p->stride_w == 1 && kx < p->kernel_w; kx++) {
            from[kx] = row + kx * apart;
        }
        if (p->stride_w == 1) {
            maxpool_s8_x86_of(o, from, p->kernel_w, p->out_w * p->channels);
        } else {
            maxpool_s8_x86_across(p, row, from, o);
        }
    }
}
