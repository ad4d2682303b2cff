/* Transposed convolution of float32, int16 or int8 [H, W, C]: one source for every level of x86-64. int8 is multiplied
 * as int16.
 *
 * Outputs that are `stride` apart use the same taps of the kernel: each of these grids of outputs is a separate
 * convolution with its own weights. The windows of a few of its pixels are copied into scratch, tap by tap, with zeros
 * or zero points outside the input; the products are those of ge_x86_products.h. Zeros change no sum of float32, as in
 * conv2d_wide_x86.c; the biases of integers account for the zero points. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_ints.h"
#include "ge_x86_products.h"

/* clang-format off */
#define CONV_TRANSPOSE2D_WIDE_X86_BYTES 4 /* bytes of an element: 4 of float32, 2 of int16, 1 of int8 */
#define CONV_TRANSPOSE2D_WIDE_X86_PARAMS ge_conv_transpose2d_f32_params
#define CONV_TRANSPOSE2D_WIDE_X86_UNIT float /* type of the constants */
/* clang-format on */

#define CONV_TRANSPOSE2D_WIDE_X86_HELD (CONV_TRANSPOSE2D_WIDE_X86_BYTES == 4 ? 4 : 2) /* bytes as multiplied */

#define CONV_TRANSPOSE2D_WIDE_X86_TILE(windows, wide)                                                                  \
    static GE_X86_FN void GE_X86_SIZED(conv_transpose2d_wide_x86_tile, windows, wide)(const ge_x86_products *s,        \
                                                                                      int32_t block) {                 \
        ge_x86_products_tile(s, block, windows, wide, CONV_TRANSPOSE2D_WIDE_X86_BYTES);                                \
    }
GE_X86_PRODUCT_TILES(CONV_TRANSPOSE2D_WIDE_X86_TILE)

/* Computes all outputs of the current windows. */
static GE_X86_FN void conv_transpose2d_wide_x86_outputs(const ge_x86_products *s, int32_t windows) {
    const int32_t blocks = (s->outputs + 15) / 16;
    for (int32_t block = 0; block < blocks;) {
        const int32_t left = blocks - block;
#define CONV_TRANSPOSE2D_WIDE_X86_CALL(size, wide)                                                                     \
    if (windows == size && left >= wide) {                                                                             \
        GE_X86_SIZED(conv_transpose2d_wide_x86_tile, size, wide)(s, block);                                            \
        block += wide;                                                                                                 \
        continue;                                                                                                      \
    }
        GE_X86_PRODUCT_TILES(CONV_TRANSPOSE2D_WIDE_X86_CALL)
    }
}

/* Returns the number of taps that outputs use whose index plus the padding has this remainder modulo the stride. */
static GE_X86_FN int32_t conv_transpose2d_wide_x86_taps(int32_t kernel, int32_t dilation, int32_t stride,
                                                        int32_t rest) {
    int32_t count = 0;
    for (int32_t k = 0; k < kernel; k++) {
        count += k * dilation % stride == rest;
    }
    return count;
}

/* Copies the window of output (y, ox) in the `depth` channels from c on. */
static GE_X86_FN void conv_transpose2d_wide_x86_window(const CONV_TRANSPOSE2D_WIDE_X86_PARAMS *p, const ge_rows *x,
                                                       int32_t y, int32_t ox, int32_t c, int32_t depth, uint8_t *to) {
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t down = y + p->pad_top - ky * p->dilation_h, iy = down / p->stride_h;
        if (down % p->stride_h != 0) {
            continue;
        }
        const uint8_t *const row = down >= 0 && iy < p->in_h ? (const uint8_t *)ge_row(x, iy) : NULL;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t across = ox + p->pad_left - kx * p->dilation_w, ix = across / p->stride_w;
            if (across % p->stride_w == 0) {
                const int32_t inside = row != NULL && across >= 0 && ix < p->in_w;
                if (inside) {
                    ge_x86_hold(to, row + (ix * p->in_c + c) * CONV_TRANSPOSE2D_WIDE_X86_BYTES, depth,
                                CONV_TRANSPOSE2D_WIDE_X86_BYTES);
                } else {
                    ge_x86_padding(to, GE_X86_ZERO_FOR(CONV_TRANSPOSE2D_WIDE_X86_BYTES, p), depth,
                                   CONV_TRANSPOSE2D_WIDE_X86_HELD);
                }
                to += depth * CONV_TRANSPOSE2D_WIDE_X86_HELD;
            }
        }
    }
    memset(to, 0, 4 - CONV_TRANSPOSE2D_WIDE_X86_HELD); /* the other half of the last pair */
}

/* Computes all outputs of row y from column `first` on, `stride` apart, for group g. */
static GE_X86_FN void conv_transpose2d_wide_x86_line(const CONV_TRANSPOSE2D_WIDE_X86_PARAMS *p, const ge_rows *x,
                                                     uint8_t *o, int32_t y, int32_t first, int32_t g,
                                                     ge_x86_products *s, uint8_t *scratch) {
    const int32_t depth = p->in_c / p->groups, pixels = (p->out_w - first + p->stride_w - 1) / p->stride_w;
    const int32_t windows = ge_x86_windows_of((s->outputs + 15) / 16, pixels);
    for (int32_t n = 0; n < pixels; n += windows) {
        s->count = pixels - n < windows ? pixels - n : windows;
        for (int32_t i = 0; i < windows; i++) {
            uint8_t *const window = scratch + (ptrdiff_t)i * (4 * s->units + 4);
            const int32_t ox = first + (n + (i < s->count ? i : 0)) * p->stride_w;
            s->x[i] = i < s->count ? window : scratch;
            s->out[i] = o + (ox * p->out_c + g * s->outputs) * CONV_TRANSPOSE2D_WIDE_X86_BYTES;
            if (i < s->count) {
                conv_transpose2d_wide_x86_window(p, x, y, ox, g * depth, depth, window);
            }
        }
        conv_transpose2d_wide_x86_outputs(s, windows);
    }
}

static GE_X86_FN void ge_conv_transpose2d_wide_x86(const CONV_TRANSPOSE2D_WIDE_X86_PARAMS *p, const ge_rows *x,
                                                   const CONV_TRANSPOSE2D_WIDE_X86_UNIT *stream, const ge_rows *out,
                                                   int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t depth = p->in_c / p->groups, begin = 0;
    ge_x86_products s;
    s.runs = &begin;
    s.run_count = 1;
    s.outputs = p->out_c / p->groups;
    s.law = GE_X86_LAW_FOR(CONV_TRANSPOSE2D_WIDE_X86_BYTES, p);
    const int32_t blocks = (s.outputs + 15) / 16, heads = GE_X86_HEADS(CONV_TRANSPOSE2D_WIDE_X86_BYTES);
    for (int32_t y = first_row; y < last_row; y++) {
        uint8_t *const o = (uint8_t *)ge_row(out, y);
        const uint8_t *at = (const uint8_t *)stream;
        for (int32_t grid = 0; grid < p->stride_h * p->stride_w; grid++) {
            const int32_t down = grid / p->stride_w, across = grid % p->stride_w;
            const int32_t taps = conv_transpose2d_wide_x86_taps(p->kernel_h, p->dilation_h, p->stride_h, down) *
                                 conv_transpose2d_wide_x86_taps(p->kernel_w, p->dilation_w, p->stride_w, across);
            s.units = (taps * depth * CONV_TRANSPOSE2D_WIDE_X86_HELD + 3) / 4;
            const int32_t first = (across + p->stride_w - p->pad_left % p->stride_w) % p->stride_w;
            for (int32_t g = 0; g < p->groups; g++) {
                s.blocks = at;
                if ((y + p->pad_top) % p->stride_h == down && first < p->out_w) {
                    conv_transpose2d_wide_x86_line(p, x, o, y, first, g, &s, (uint8_t *)scratch);
                }
                at += (ptrdiff_t)blocks * 64 * (s.units + heads);
            }
        }
    }
}
