/* Depthwise convolution of float32, int16 or int8, any window, with as many output channels as input channels: one
 * source for every level of x86-64.
 *
 * The channels of a pixel are contiguous, as are the weights of a tap, in blocks of 16 channels as in
 * ge_x86_products.h. For each block, all pixels of a row are computed one after the other, so the weights of a 3x3
 * kernel stay in registers. An integer is multiplied as a pair of itself and its sign, by a weight and 0. Taps in the
 * padding point to a pixel of zeros, or of zero points, in scratch: zeros change no sum, as in conv2d_wide_x86.c. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_ints.h"
#include "ge_x86_products.h"

/* clang-format off */
#define DEPTHWISE_WIDE_X86_BYTES 4 /* bytes of an element: 4 of float32, 2 of int16, 1 of int8 */
#define DEPTHWISE_WIDE_X86_PARAMS ge_conv2d_f32_params
#define DEPTHWISE_WIDE_X86_UNIT float /* type of the constants */
/* clang-format on */

/* Data that all pixels of a row share. */
typedef struct {
    const uint8_t *
        *at; /* [rows of the kernel][columns]: addresses of the input pixels that the row reads, padding included */
    int32_t kernel_h;
    int32_t kernel_w;
    int32_t columns;
    int32_t step; /* columns from tap to tap */
    int32_t stride;
    int32_t pixels; /* pixels of an output row */
    int32_t channels;
    const uint8_t *blocks; /* blocks of weights */
    ge_x86_wide_law law;
} depthwise_wide_x86_layer;

static inline GE_X86_INLINE ge_x86_ints depthwise_wide_x86_load(const uint8_t *pixel, int32_t c, int32_t some) {
    return ge_x86_some_elements_at(pixel + c * DEPTHWISE_WIDE_X86_BYTES, some, DEPTHWISE_WIDE_X86_BYTES);
}

/* Computes the block of channels from c on, `some` of which exist, for all pixels of a row. */
static inline GE_X86_INLINE void depthwise_wide_x86_block(const depthwise_wide_x86_layer *s, int32_t c, uint8_t *o,
                                                          const int32_t some) {
    const int32_t heads = GE_X86_HEADS(DEPTHWISE_WIDE_X86_BYTES), taps = s->kernel_h * s->kernel_w;
    const uint8_t *const block = s->blocks + (ptrdiff_t)(c / 16) * 64 * (taps + heads);
    for (int32_t pixel = 0; pixel < s->pixels; pixel++) {
        ge_x86_ints sums[GE_X86_PARTS];
        const uint8_t *w = block + 64 * heads;
        GE_X86_UNROLL
        for (int32_t v = 0; v < GE_X86_PARTS; v++) {
            sums[v] = ge_x86_ints_at(block + 4 * GE_X86_FLOATS * v);
        }
        for (int32_t ky = 0; ky < s->kernel_h; ky++) {
            const uint8_t *const *at = s->at + ky * s->columns + pixel * s->stride;
            for (int32_t kx = 0; kx < s->kernel_w; kx++) {
                GE_X86_UNROLL
                for (int32_t v = 0; v < GE_X86_PARTS; v++) {
                    const int32_t begin = v * GE_X86_FLOATS, left = some > begin ? some - begin : 0;
                    const ge_x86_ints x = depthwise_wide_x86_load(*at, c + begin, left);
                    sums[v] = ge_x86_step(sums[v], ge_x86_ints_at(w + 4 * begin), x, DEPTHWISE_WIDE_X86_BYTES);
                }
                at += s->step;
                w += 64;
            }
        }
        ge_x86_finish(o + (pixel * s->channels + c) * DEPTHWISE_WIDE_X86_BYTES, sums, block, some, &s->law,
                      DEPTHWISE_WIDE_X86_BYTES);
    }
}

/* One column of three input rows, or of weights. */
typedef struct {
    ge_x86_ints row[3];
} depthwise_wide_x86_column;

static inline GE_X86_INLINE depthwise_wide_x86_column depthwise_wide_x86_column_at(const depthwise_wide_x86_layer *s,
                                                                                   int32_t column, int32_t c) {
    depthwise_wide_x86_column found;
    GE_X86_UNROLL
    for (int32_t ky = 0; ky < 3; ky++) {
        found.row[ky] = depthwise_wide_x86_load(s->at[ky * s->columns + column], c, GE_X86_FLOATS);
    }
    return found;
}

/* Computes a vector of channels of 3x3 windows one column apart: weights stay in registers, and each input column is
 * loaded once for the three pixels that use it. */
static GE_X86_FN void depthwise_wide_x86_nine(const depthwise_wide_x86_layer *s, int32_t c, uint8_t *o) {
    const int32_t heads = GE_X86_HEADS(DEPTHWISE_WIDE_X86_BYTES);
    const uint8_t *const block = s->blocks + (ptrdiff_t)(c / 16) * 64 * (9 + heads) + c % 16 * 4;
    const ge_x86_ints bias = ge_x86_ints_at(block), multiplier = ge_x86_ints_at(block + 64 * (heads - 1));
    const ge_x86_wide_law law = s->law;
    depthwise_wide_x86_column w[3], x[3];
    GE_X86_UNROLL
    for (int32_t k = 0; k < 9; k++) {
        w[k % 3].row[k / 3] = ge_x86_ints_at(block + 64 * (heads + k));
    }
    x[0] = depthwise_wide_x86_column_at(s, 0, c);
    x[1] = depthwise_wide_x86_column_at(s, 1, c);
    for (int32_t pixel = 0; pixel < s->pixels; pixel += 3) {
        GE_X86_UNROLL
        for (int32_t i = 0; i < 3; i++) {
            if (pixel + i < s->pixels) {
                ge_x86_ints sums = bias;
                x[(i + 2) % 3] = depthwise_wide_x86_column_at(s, pixel + i + 2, c);
                GE_X86_UNROLL
                for (int32_t k = 0; k < 9; k++) {
                    sums = ge_x86_step(sums, w[k % 3].row[k / 3], x[(i + k) % 3].row[k / 3], DEPTHWISE_WIDE_X86_BYTES);
                }
                ge_x86_store_elements(o + ((pixel + i) * s->channels + c) * DEPTHWISE_WIDE_X86_BYTES,
                                      ge_x86_outputs(sums, multiplier, &law, DEPTHWISE_WIDE_X86_BYTES),
                                      DEPTHWISE_WIDE_X86_BYTES);
            }
        }
    }
}

static GE_X86_FN void depthwise_wide_x86_row(const depthwise_wide_x86_layer *s, uint8_t *o) {
    const int32_t nine = s->kernel_h == 3 && s->kernel_w == 3 && s->stride == 1 && s->step == 1;
    int32_t c = 0;
    for (; nine && c + GE_X86_FLOATS <= s->channels / 16 * 16; c += GE_X86_FLOATS) {
        depthwise_wide_x86_nine(s, c, o);
    }
    for (; c + 16 <= s->channels; c += 16) {
        depthwise_wide_x86_block(s, c, o, 16);
    }
    if (c < s->channels) {
        depthwise_wide_x86_block(s, c, o, s->channels - c);
    }
}

/* Sets the addresses of the columns of an input row that outputs read, from -pad_left on; if `row` is NULL, all of them
 * are padding. */
static GE_X86_FN void depthwise_wide_x86_columns(const DEPTHWISE_WIDE_X86_PARAMS *p, const uint8_t *row,
                                                 int32_t columns, const uint8_t *padding, const uint8_t **at) {
    for (int32_t i = 0; i < columns; i++) {
        const int32_t ix = i - p->pad_left;
        at[i] =
            row != NULL && ix >= 0 && ix < p->in_w ? row + (ptrdiff_t)ix * p->in_c * DEPTHWISE_WIDE_X86_BYTES : padding;
    }
}

static GE_X86_FN void ge_depthwise_wide_x86(const DEPTHWISE_WIDE_X86_PARAMS *p, const ge_rows *x,
                                            const DEPTHWISE_WIDE_X86_UNIT *stream, const ge_rows *out,
                                            int32_t first_row, int32_t last_row, void *scratch) {
    depthwise_wide_x86_layer s;
    s.at = (const uint8_t **)scratch;
    s.kernel_h = p->kernel_h;
    s.kernel_w = p->kernel_w;
    s.columns = (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
    s.step = p->dilation_w;
    s.stride = p->stride_w;
    s.pixels = p->out_w;
    s.channels = p->out_c;
    s.blocks = (const uint8_t *)stream;
    uint8_t *const padding = (uint8_t *)(s.at + s.kernel_h * s.columns);
    ge_x86_padding(padding, GE_X86_ZERO_FOR(DEPTHWISE_WIDE_X86_BYTES, p), p->in_c, DEPTHWISE_WIDE_X86_BYTES);
    s.law = GE_X86_LAW_FOR(DEPTHWISE_WIDE_X86_BYTES, p);
    for (int32_t y = first_row; y < last_row; y++) {
        for (int32_t ky = 0; ky < p->kernel_h; ky++) {
            const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
            const uint8_t *const row = iy >= 0 && iy < p->in_h ? (const uint8_t *)ge_row(x, iy) : NULL;
            depthwise_wide_x86_columns(p, row, s.columns, padding, s.at + ky * s.columns);
        }
        depthwise_wide_x86_row(&s, (uint8_t *)ge_row(out, y));
    }
}
