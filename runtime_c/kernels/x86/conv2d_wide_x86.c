/* Convolution of float32, int16 or int8 [H, W, C]: one source for every level of x86-64. int8 is multiplied as int16,
 * since its weights have nine bits once their zero points are subtracted.
 *
 * The input rows that a few output rows read lie in scratch, with their padding: a window is one run for each row of
 * the kernel, or one for each tap where columns are dilated or there are groups. The pixels of a kernel of one tap are
 * read in place if all pixels of a tile are in one row or all of their outputs are one tile, since the outputs of a row
 * may overwrite inputs of the rows before it. The products are those of ge_x86_products.h. Zero padding changes no sum
 * of float32: no sum is -0, because no bias is, and a finite weight times 0 is a zero. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_ints.h"
#include "ge_x86_products.h"

/* clang-format off */
#define CONV2D_WIDE_X86_BYTES 4 /* bytes of an element: 4 of float32, 2 of int16, 1 of int8 */
#define CONV2D_WIDE_X86_PARAMS ge_conv2d_f32_params
#define CONV2D_WIDE_X86_UNIT float /* type of the constants */
#define CONV2D_WIDE_X86_PIXELS 64 /* pixels that are computed together where output rows are short */
/* clang-format on */

#define CONV2D_WIDE_X86_HELD (CONV2D_WIDE_X86_BYTES == 4 ? 4 : 2) /* bytes of an element as it is multiplied */

#define CONV2D_WIDE_X86_TILE(windows, wide)                                                                            \
    static GE_X86_FN void GE_X86_SIZED(conv2d_wide_x86_tile, windows, wide)(const ge_x86_products *s, int32_t block) { \
        ge_x86_products_tile(s, block, windows, wide, CONV2D_WIDE_X86_BYTES);                                          \
    }
GE_X86_PRODUCT_TILES(CONV2D_WIDE_X86_TILE)

/* Computes all outputs of the current windows. */
static GE_X86_FN void conv2d_wide_x86_outputs(const ge_x86_products *s, int32_t windows) {
    const int32_t blocks = (s->outputs + 15) / 16;
    for (int32_t block = 0; block < blocks;) {
        const int32_t left = blocks - block;
#define CONV2D_WIDE_X86_CALL(size, wide)                                                                               \
    if (windows == size && left >= wide) {                                                                             \
        GE_X86_SIZED(conv2d_wide_x86_tile, size, wide)(s, block);                                                      \
        block += wide;                                                                                                 \
        continue;                                                                                                      \
    }
        GE_X86_PRODUCT_TILES(CONV2D_WIDE_X86_CALL)
    }
}

/* Copies input row iy, or padding: `columns` columns from -pad_left on. */
static GE_X86_FN void conv2d_wide_x86_row(const CONV2D_WIDE_X86_PARAMS *p, const ge_rows *x, int32_t iy,
                                          int32_t columns, uint8_t *to) {
    const int32_t pixel = p->in_c * CONV2D_WIDE_X86_HELD, inside = iy >= 0 && iy < p->in_h ? p->in_w : 0;
    const int32_t left = p->pad_left < columns ? p->pad_left : columns;
    const int32_t middle = inside < columns - left ? inside : columns - left;
    const int32_t zero = GE_X86_ZERO_FOR(CONV2D_WIDE_X86_BYTES, p), behind = columns - left - middle;
    ge_x86_padding(to, zero, left * p->in_c, CONV2D_WIDE_X86_HELD);
    if (middle > 0) {
        ge_x86_hold(to + left * pixel, ge_row(x, iy), middle * p->in_c, CONV2D_WIDE_X86_BYTES);
    }
    ge_x86_padding(to + (left + middle) * pixel, zero, behind * p->in_c, CONV2D_WIDE_X86_HELD);
}

/* Returns the number of output rows that are computed together. */
static GE_X86_FN int32_t conv2d_wide_x86_lines(const CONV2D_WIDE_X86_PARAMS *p) {
    return p->out_w < CONV2D_WIDE_X86_PIXELS / 4 ? CONV2D_WIDE_X86_PIXELS / p->out_w : 4;
}

/* Sets the offsets of the runs of a window in a plane whose rows have `row` bytes. */
static GE_X86_FN void conv2d_wide_x86_runs(const CONV2D_WIDE_X86_PARAMS *p, int32_t row, int32_t across,
                                           int32_t *runs) {
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        for (int32_t kx = 0; kx < across; kx++) {
            *runs++ = ky * p->dilation_h * row + kx * p->dilation_w * p->in_c * CONV2D_WIDE_X86_HELD;
        }
    }
}

/* Computes all channels of group g of `pixels` pixels in rows from y on. The first row of their windows lies at
 * `plane`, whose rows have `row` bytes; if it is NULL, windows are pixels of x. */
static GE_X86_FN void conv2d_wide_x86_group(const CONV2D_WIDE_X86_PARAMS *p, const ge_rows *x, const ge_rows *out,
                                            int32_t y, int32_t pixels, int32_t g, const uint8_t *plane, int32_t row,
                                            ge_x86_products *s) {
    const int32_t in = p->in_c / p->groups * g, windows = ge_x86_windows_of((s->outputs + 15) / 16, pixels);
    const int32_t step = p->stride_w * p->in_c * CONV2D_WIDE_X86_HELD, next = p->out_c * CONV2D_WIDE_X86_BYTES;
    const uint8_t *from = NULL;
    uint8_t *to = NULL;
    int32_t line = 0, column = p->out_w;
    for (int32_t n = 0; n < pixels; n += s->count) {
        s->count = pixels - n < windows ? pixels - n : windows;
        for (int32_t i = 0; i < windows; i++) {
            if (i >= s->count) {
                s->x[i] = s->x[0];
                continue;
            }
            if (column == p->out_w) {
                from = plane == NULL ? (const uint8_t *)ge_row(x, (y + line) * p->stride_h)
                                     : plane + line * p->stride_h * row;
                from += in * CONV2D_WIDE_X86_HELD;
                to = (uint8_t *)ge_row(out, y + line) + g * s->outputs * CONV2D_WIDE_X86_BYTES;
                column = 0;
                line++;
            }
            s->x[i] = from;
            s->out[i] = to;
            from += step;
            to += next;
            column++;
        }
        conv2d_wide_x86_outputs(s, windows);
    }
}

/* Returns whether windows are pixels of the input that can be read in place. */
static GE_X86_FN int32_t conv2d_wide_x86_points(const CONV2D_WIDE_X86_PARAMS *p) {
    const int32_t depth = p->in_c / p->groups;
    return CONV2D_WIDE_X86_BYTES == CONV2D_WIDE_X86_HELD && p->kernel_h * p->kernel_w == 1 && p->pad_top == 0 &&
           p->pad_left == 0 && depth * CONV2D_WIDE_X86_BYTES % 4 == 0 && (p->out_h - 1) * p->stride_h < p->in_h &&
           (p->out_w - 1) * p->stride_w < p->in_w;
}

static GE_X86_FN void ge_conv2d_wide_x86(const CONV2D_WIDE_X86_PARAMS *p, const ge_rows *x,
                                         const CONV2D_WIDE_X86_UNIT *stream, const ge_rows *out, int32_t first_row,
                                         int32_t last_row, void *scratch) {
    const int32_t columns = (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
    const int32_t row = columns * p->in_c * CONV2D_WIDE_X86_HELD, depth = p->in_c / p->groups;
    const int32_t across = p->dilation_w == 1 && p->groups == 1 ? 1 : p->kernel_w;
    int32_t *const runs = (int32_t *)scratch;
    ge_x86_products s;
    s.runs = runs;
    s.run_count = p->kernel_h * across;
    s.units = (p->kernel_w / across * depth * CONV2D_WIDE_X86_HELD + 3) / 4;
    s.outputs = p->out_c / p->groups;
    s.law = GE_X86_LAW_FOR(CONV2D_WIDE_X86_BYTES, p);
    uint8_t *const plane = (uint8_t *)(runs + s.run_count);
    const int32_t blocks = (s.outputs + 15) / 16, points = conv2d_wide_x86_points(p);
    const int32_t one_tile = p->groups == 1 && blocks <= (GE_X86_FLOATS == 16 ? 4 : 1) && blocks != 3;
    const int32_t most = !points || one_tile ? conv2d_wide_x86_lines(p) : 1;
    const int32_t group = blocks * 64 * (s.run_count * s.units + GE_X86_HEADS(CONV2D_WIDE_X86_BYTES));
    conv2d_wide_x86_runs(p, row, across, runs);
    for (int32_t y = first_row; y < last_row; y += most) {
        const int32_t lines = last_row - y < most ? last_row - y : most;
        const int32_t high = (lines - 1) * p->stride_h + (p->kernel_h - 1) * p->dilation_h + 1;
        for (int32_t i = 0; i < high && !points; i++) {
            conv2d_wide_x86_row(p, x, y * p->stride_h - p->pad_top + i, columns, plane + i * row);
        }
        for (int32_t g = 0; g < p->groups; g++) {
            s.blocks = (const uint8_t *)stream + (ptrdiff_t)g * group;
            conv2d_wide_x86_group(p, x, out, y, lines * p->out_w, g, points ? NULL : plane, row, &s);
        }
    }
}
