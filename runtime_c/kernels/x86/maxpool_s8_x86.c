/* Largest element of each window of int8 [H, W, C]: one source for every level of x86-64.
 *
 * The rows of a window are first reduced to one row of maxima, with all columns and channels in vectors; an output row
 * then takes the largest of the columns of that row. Padding holds the lowest number. Windows of 2x2 and 3x3 that
 * overlap little, because they are more than a column apart, read their elements from the input instead, where a pixel
 * fills vectors.
 */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_portable.h"

/* Computes the largest of `sources` rows of elements, three or two at a time. */
static GE_X86_FN void maxpool_s8_x86_of(int8_t *to, const int8_t *const *from, int32_t sources, int32_t count) {
    if (sources == 1) {
        memcpy(to, from[0], (size_t)count);
    } else if (sources == 2) {
        const int8_t *const few[2] = {from[0], from[1]};
        ge_x86_largest(to, few, 2, count);
    } else if (sources >= 3) {
        const int8_t *const few[3] = {from[0], from[1], from[2]};
        ge_x86_largest(to, few, 3, count);
        for (int32_t k = 3; k < sources; k++) {
            const int8_t *const more[2] = {to, from[k]};
            ge_x86_largest(to, more, 2, count);
        }
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

/* Computes an output row, whose pixels are the largest of `sources` columns of a row of maxima, a constant, or of any
 * number of columns if 0. */
static inline GE_X86_INLINE void maxpool_s8_x86_columns(const ge_pool_params *p, const int8_t *row, const int8_t **from,
                                                        int8_t *o, const int32_t sources) {
    const int32_t step = p->stride_w * p->channels, apart = p->dilation_w * p->channels;
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        if (sources > 0) {
            const int8_t *const few[3] = {row, row + apart, row + 2 * apart};
            ge_x86_largest(o, few, sources, p->channels);
        } else {
            for (int32_t kx = 0; kx < p->kernel_w; kx++) {
                from[kx] = row + kx * apart;
            }
            maxpool_s8_x86_of(o, from, p->kernel_w, p->channels);
        }
        row += step;
        o += p->channels;
    }
}

/* Does the same for any kernel. */
static GE_X86_FN void maxpool_s8_x86_across(const ge_pool_params *p, const int8_t *row, const int8_t **from,
                                            int8_t *o) {
    if (p->kernel_w == 3) {
        maxpool_s8_x86_columns(p, row, from, o, 3);
    } else if (p->kernel_w == 2) {
        maxpool_s8_x86_columns(p, row, from, o, 2);
    } else {
        maxpool_s8_x86_columns(p, row, from, o, 0);
    }
}

/* Returns the place that is next to i in a row or column of n. */
static inline GE_X86_INLINE int32_t maxpool_s8_x86_clamped(int32_t i, int32_t n) {
    return i < 0 ? 0 : i < n ? i : n - 1;
}

/* Computes output row y from windows of size x size, a constant, without a row of maxima. An element outside of the
 * input is replaced by the next one inside, which belongs to the window, too. */
static inline GE_X86_INLINE void maxpool_s8_x86_windows(const ge_pool_params *p, const ge_rows *x, int32_t y, int8_t *o,
                                                        const int32_t size) {
    const int32_t top = y * p->stride_h - p->pad_top, channels = p->channels;
    const int8_t *rows[3];
    GE_X86_UNROLL
    for (int32_t k = 0; k < size; k++) {
        rows[k] = (const int8_t *)ge_row(x, maxpool_s8_x86_clamped(top + k, p->in_h));
    }
    int32_t left = -p->pad_left;
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        const int8_t *taps[9];
        GE_X86_UNROLL
        for (int32_t k = 0; k < size * size; k++) {
            taps[k] = rows[k / size] + maxpool_s8_x86_clamped(left + k % size, p->in_w) * channels;
        }
        ge_x86_largest(o, taps, size * size, channels);
        o += channels;
        left += p->stride_w;
    }
}

/* Computes output row y by maxpool_s8_x86_windows, if it is for such windows, each with an element inside the input. */
static GE_X86_FN int32_t maxpool_s8_x86_direct(const ge_pool_params *p, const ge_rows *x, int32_t y, int8_t *o) {
    const int32_t size = p->kernel_w, top = y * p->stride_h - p->pad_top;
    if (p->channels < 64 || p->stride_w == 1 || p->kernel_h != size || p->dilation_h > 1 || p->dilation_w > 1 ||
        p->pad_left >= size || (p->out_w - 1) * p->stride_w - p->pad_left >= p->in_w || top <= -size ||
        top >= p->in_h) {
        return 0;
    }
    if (size == 3) {
        maxpool_s8_x86_windows(p, x, y, o, 3);
    } else if (size == 2) {
        maxpool_s8_x86_windows(p, x, y, o, 2);
    }
    return size == 2 || size == 3;
}

static GE_X86_FN void ge_maxpool_s8_x86(const ge_pool_params *p, const ge_rows *x, const ge_rows *out,
                                        int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t columns = (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
    const int8_t **const from = (const int8_t **)scratch;
    int8_t *const row = (int8_t *)(from + (p->kernel_h > p->kernel_w ? p->kernel_h : p->kernel_w));
    const int32_t apart = p->dilation_w * p->channels;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        if (maxpool_s8_x86_direct(p, x, y, o)) {
            continue;
        }
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
