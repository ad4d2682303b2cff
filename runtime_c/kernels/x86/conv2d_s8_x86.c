/* Convolution of int8 [H, W, C] with int8 weights as a matrix product: one source for every level of x86-64.
 *
 * Rows of input become elements (ge_x86_portable.h) in scratch, with their padding, in a ring as high as the window;
 * the windows of the pixels of an output row then lie at a constant pitch, each as one run of bytes per row of the
 * kernel (per tap, where columns are dilated). A tile is a number of pixels by a number of vectors of 16 outputs whose
 * sums all stay in registers: for each four inputs, the vectors of weights are loaded once and each pixel's four bytes
 * are broadcast. A 1x1 kernel gathers the pixels of several rows, as a short row would not fill a tile. The last tile
 * of a line overlaps the one before: it computes some outputs twice instead of a partial tile.
 *
 * Bytes after a run are multiplied by weights of zero.
 *
 * Where there are groups, every vector of 16 outputs has its own inputs: the channels of all groups that it covers, one
 * run per tap. Its weights are zero for channels of other groups. Every vector reads as many channels as the widest one
 * needs.
 *
 * With AVX2, a 1x1 kernel whose weights have records is a product of bytes (ge_x86_bytes.h) instead.
 */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_bytes.h"
#include "ge_x86_law.h"
#include "ge_x86_portable.h"
#include "ge_x86_sweep.h"
#include "ge_x86_tiles.h"
#include "ge_x86_winograd.h"

/* clang-format off */
#define CONV2D_S8_X86_PIXELS 64 /* pixels that a 1x1 kernel gathers when a row is shorter */
#define CONV2D_S8_X86_KEPT 3072 /* taps of all outputs that are widened once per call, at most */
#define CONV2D_S8_X86_LINES 4   /* output rows that a kernel of several taps computes at once */
#define CONV2D_S8_X86_SMALL 4096 /* elements of the steps of an image that are expanded at once */
#define CONV2D_S8_X86_LAW default
/* clang-format on */

/* Data that all tiles of a layer share. */
typedef struct {
    const ge_x86_element **runs; /* [lines][runs]: addresses of the runs of the first pixel of each line */
    int32_t run_count;
    /* The runs of a line that are more than zeros: first_run..last_run-1. */
    int32_t first_run[CONV2D_S8_X86_LINES];
    int32_t last_run[CONV2D_S8_X86_LINES];
    const ge_x86_element *const *line; /* those of the current line */
    int32_t line_count;
    int32_t steps; /* steps of four inputs in a run */
    int32_t pitch; /* elements from pixel to pixel */
    int32_t out_c;
    int32_t channels; /* the same, rounded up to whole vectors */
    int32_t group_in; /* channels of a group; 0: there is only one group */
    int32_t group_out;
    int32_t last_begin;    /* the last channel at which the inputs of a vector may begin */
    const int8_t *weights; /* [out_c / 16][runs][steps][16][4] */
    const ge_x86_tap *w;   /* weights of the current vectors and line, in the order of ge_x86_dot */
    ge_x86_tap *room;
    int32_t plain;    /* whether no channel of the current vectors is absent, or needs another form than 0 */
    int32_t sweeps;   /* whether GE_X86_COLUMN_TILES apply: kernels of three adjacent columns */
    int32_t bordered; /* and the columns before and behind the image are zeros */
    int32_t kept;     /* whether `room` holds the weights of all vectors */
    int32_t ready;    /* and already contains them */
    void *squares;    /* sums, inputs and weights of ge_x86_winograd.h, in the same memory */
    const int32_t *bias;
    const int32_t *moved; /* what is added to the sums of all channels, then to their outputs; NULL: nothing */
    const int32_t *multiplier;
    const float *scale;
    const int8_t *pairs; /* weights in the order of `records`, of ge_x86_bytes.h */
    const uint8_t *records;
    uint8_t *ordered;
    ge_x86_law law;
} conv2d_s8_x86_layer;

/* Requantizes and stores the outputs of `rows` pixels by `wide` vectors to `o`, for channels from 16 * vector on. Both
 * numbers are constants, and `plain`: there are so many channels, and all have form 0. */
static inline GE_X86_INLINE void conv2d_s8_x86_finish(const conv2d_s8_x86_layer *s, const ge_x86_sums *acc,
                                                      int32_t vector, int8_t *o, const int32_t rows, const int32_t wide,
                                                      const int32_t plain) {
    const ptrdiff_t pitch = s->out_c;
    const int32_t *const move = s->moved;
    const int32_t first = 16 * vector, left = plain ? 16 * wide : s->out_c - first;
    ge_x86_sums y[16 * 2];
    GE_X86_UNROLL
    for (int32_t v = 0; v < wide; v++) {
        const int32_t *const words = s->multiplier + (first + 16 * v) * GE_X86_WORDS(CONV2D_S8_X86_LAW);
        const float *const rows_of = s->scale + (first + 16 * v) * GE_X86_ROWS(CONV2D_S8_X86_LAW);
        const int32_t form = plain ? 0 : ge_x86_form(rows_of);
        GE_X86_UNROLL
        for (int32_t r = 0; r < rows; r++) {
            ge_x86_sums sum = acc[r * wide + v];
            if (move != NULL && form >= 0) {
                sum = ge_x86_add(sum, ge_x86_load(move + first + 16 * v));
            }
            sum = GE_X86_BY(CONV2D_S8_X86_LAW, _sums)(sum, words, rows_of, form, &s->law);
            if (move != NULL && form >= 0) {
                sum = ge_x86_add(sum, ge_x86_load(move + s->channels + first + 16 * v));
            }
            y[r * wide + v] = sum;
        }
    }
    const int32_t fours = left >= 16 * wide ? rows * wide / 4 : 0;
    GE_X86_UNROLL
    for (int32_t i = 0; i < rows * wide / 4; i++) {
        if (i < fours) {
            int8_t *to[4];
            GE_X86_UNROLL
            for (int32_t k = 0; k < 4; k++) {
                to[k] = o + (4 * i + k) / wide * pitch + 16 * ((4 * i + k) % wide);
            }
            if (plain && pitch == 16 * wide) {
                ge_x86_store_shorts4(to, y + 4 * i, 1, &s->law);
            } else {
                ge_x86_store_shorts4(to, y + 4 * i, 4 / wide, &s->law);
            }
        }
    }
    GE_X86_UNROLL
    for (int32_t i = 0; i < rows * wide; i++) {
        const int32_t channels = left - 16 * (i % wide);
        if (i >= 4 * fours) {
            ge_x86_store_shorts1(o + i / wide * pitch + 16 * (i % wide), y[i], channels < 16 ? channels : 16, &s->law);
        }
    }
}

/* Returns the first channel that the outputs of a vector read. */
static inline GE_X86_INLINE int32_t conv2d_s8_x86_begin(const conv2d_s8_x86_layer *s, int32_t vector) {
    const int32_t begin = s->group_in > 0 ? 16 * vector / s->group_out * s->group_in : 0;
    return begin < s->last_begin ? begin : s->last_begin;
}

/* Computes one tile, whose first pixel is number `pixel` of a line. `rows` pixels by `wide` vectors; `columns` of the
 * kernel that use an input once it is loaded, 1 or 3; `raw`: inputs are not elements but bytes; all are constants.
 * `before`, `behind`: whether the first and the last column of such inputs are more than zeros. */
static inline GE_X86_INLINE void conv2d_s8_x86_tile(const conv2d_s8_x86_layer *s, int32_t begin, int32_t pixel,
                                                    int32_t vector, int8_t *o, int32_t before, int32_t behind,
                                                    const int32_t rows, const int32_t wide, const int32_t columns,
                                                    const int32_t raw) {
    const int32_t steps = s->steps / columns * (4 / GE_X86_TOGETHER), last = rows + columns - 2;
    const ptrdiff_t pitch = s->pitch, apart = (ptrdiff_t)s->run_count * s->steps * 64;
    const ptrdiff_t at = pixel * pitch + begin, next = s->steps / columns * 64;
    const ge_x86_tap *w = s->w;
    ge_x86_sums acc[16 * 2];
    GE_X86_UNROLL
    for (int32_t i = 0; i < rows * wide; i++) {
        acc[i] = ge_x86_load(s->bias + 16 * (vector + i % wide));
    }
    for (int32_t run = 0; run < s->line_count; run++) {
        const ge_x86_element *x[6];
        GE_X86_UNROLL
        for (int32_t r = 0; r <= last; r += 3) {
            x[r / 3] = s->line[run] + at + r * pitch;
        }
        for (int32_t step = 0; step < steps; step++) {
            ge_x86_weights taps[6];
            GE_X86_UNROLL
            for (int32_t j = 0; j < columns; j++) {
                GE_X86_UNROLL
                for (int32_t v = 0; v < wide; v++) {
                    taps[j * wide + v] = ge_x86_weights_at(w + j * next + v * apart);
                }
            }
            GE_X86_UNROLL
            for (int32_t c = 0; c <= last; c++) {
                if (columns == 1 || ((c > 0 || before) && (c < last || behind))) {
                    const ge_x86_element *const from = x[c / 3] + c % 3 * pitch;
                    const ge_x86_input input = raw ? ge_x86_input_raw((const int8_t *)from) : ge_x86_input_at(from);
                    GE_X86_UNROLL
                    for (int32_t j = 0; j < columns; j++) {
                        const int32_t r = c - j;
                        GE_X86_UNROLL
                        for (int32_t v = 0; v < wide; v++) {
                            if (r >= 0 && r < rows) {
                                acc[r * wide + v] = ge_x86_dot(acc[r * wide + v], taps[j * wide + v], input);
                            }
                        }
                    }
                }
            }
            GE_X86_UNROLL
            for (int32_t r = 0; r <= last; r += 3) {
                x[r / 3] += GE_X86_TOGETHER;
            }
            w += 16 * GE_X86_TOGETHER;
        }
        w += (columns - 1) * next;
    }
    o += (ptrdiff_t)pixel * s->out_c + 16 * vector;
    if (raw || columns > 1 || (GE_X86_SHORTS && s->plain)) {
        conv2d_s8_x86_finish(s, acc, vector, o, rows, wide, 1);
    } else {
        conv2d_s8_x86_finish(s, acc, vector, o, rows, wide, 0);
    }
}

/* Defines a function for each tile size, which computes a whole line for one or more vectors. */
#define CONV2D_S8_X86_LINE(name, rows, wide, columns, raw)                                                             \
    static GE_NOINLINE GE_X86_FN void GE_X86_SIZED(name, rows, wide)(const conv2d_s8_x86_layer *s, int32_t pixels,     \
                                                                     int32_t vector, int8_t *o) {                      \
        const int32_t begin = conv2d_s8_x86_begin(s, vector), all = columns == 1 || !s->bordered;                      \
        for (int32_t done = 0; done < pixels; done += rows) {                                                          \
            const int32_t pixel = done + rows <= pixels ? done : pixels - rows;                                        \
            const int32_t before = all || pixel > 0, behind = all || pixel + rows < pixels;                            \
            conv2d_s8_x86_tile(s, begin, pixel, vector, o, before, behind, rows, wide, columns, raw);                  \
        }                                                                                                              \
    }
#define CONV2D_S8_X86_TILE(rows, wide) CONV2D_S8_X86_LINE(conv2d_s8_x86_tiles, rows, wide, 1, 0)
#define CONV2D_S8_X86_SWEEP(rows, wide) CONV2D_S8_X86_LINE(conv2d_s8_x86_sweep, rows, wide, 3, 0)
#define CONV2D_S8_X86_RAW(rows, wide) CONV2D_S8_X86_LINE(conv2d_s8_x86_raw, rows, wide, 1, 1)
GE_X86_TILES(CONV2D_S8_X86_TILE)
GE_X86_COLUMN_TILES(CONV2D_S8_X86_SWEEP)
GE_X86_RAW_TILES(CONV2D_S8_X86_RAW)

/* Returns the number of vectors, from this one on, that read the same channels. */
static GE_X86_FN int32_t conv2d_s8_x86_alike(const conv2d_s8_x86_layer *s, int32_t vector, int32_t vectors) {
    int32_t count = 1;
    while (vector + count < vectors && conv2d_s8_x86_begin(s, vector + count) == conv2d_s8_x86_begin(s, vector)) {
        count++;
    }
    return count;
}

/* Returns whether `wide` vectors have all their channels, in form 0. */
static GE_X86_FN int32_t conv2d_s8_x86_plain(const conv2d_s8_x86_layer *s, int32_t vector, int32_t wide) {
    int32_t plain = s->out_c >= 16 * (vector + wide);
    for (int32_t v = vector; plain && v < vector + wide; v++) {
        plain = ge_x86_form(s->scale + 16 * v * GE_X86_ROWS(CONV2D_S8_X86_LAW)) == 0;
    }
    return plain;
}

/* Computes all outputs of a strip: `lines` rows of `pixels`, to o[line]. */
static GE_X86_FN void conv2d_s8_x86_strip(conv2d_s8_x86_layer *s, int32_t lines, int32_t pixels, int8_t *const *o) {
    const int32_t vectors = (s->out_c + 15) / 16, steps = s->run_count * s->steps;
    int32_t width = 0;
    for (int32_t vector = 0; vector < vectors; vector += width) {
        const int32_t alike = conv2d_s8_x86_alike(s, vector, vectors);
        width = alike > 1 ? 2 : 1;
        const int32_t swept =
            s->sweeps && conv2d_s8_x86_plain(s, vector, width) ? ge_x86_column_rows(pixels, width) : 0;
        width = swept > 0 ? width : ge_x86_tile_width(alike);
        const int32_t tile = 8 * (swept > 0 ? -swept : ge_x86_tile_rows(pixels, width)) + width;
        ge_x86_tap *const room = s->room + (s->kept ? vector * steps * 64 : 0);
        s->w = room;
        s->plain = conv2d_s8_x86_plain(s, vector, width);
        if (!s->ready) {
            s->w = ge_x86_blocks_of(room, s->weights + (ptrdiff_t)vector * steps * 64, steps * width);
        }
        const ge_x86_tap *const w = s->w;
        for (int32_t line = 0; line < lines; line++) {
            s->line = s->runs + line * s->run_count + s->first_run[line];
            s->line_count = s->last_run[line] - s->first_run[line];
            s->w = w + (ptrdiff_t)s->first_run[line] * s->steps * 64;
            switch (tile) {
#define CONV2D_S8_X86_CALL(rows, wide)                                                                                 \
    case 8 * rows + wide:                                                                                              \
        GE_X86_SIZED(conv2d_s8_x86_tiles, rows, wide)(s, pixels, vector, o[line]);                                     \
        break;
#define CONV2D_S8_X86_CALL_SWEEP(rows, wide)                                                                           \
    case -8 * rows + wide:                                                                                             \
        GE_X86_SIZED(conv2d_s8_x86_sweep, rows, wide)(s, pixels, vector, o[line]);                                     \
        break;
                GE_X86_TILES(CONV2D_S8_X86_CALL)
                GE_X86_COLUMN_TILES(CONV2D_S8_X86_CALL_SWEEP)
            default:
                break;
            }
        }
    }
    s->ready = s->kept;
}

#define CONV2D_S8_X86_SQUARES 6  /* squares of one matrix product */
#define CONV2D_S8_X86_LARGE 4096 /* outputs */

/* Returns whether the output may be computed in squares, and is large enough to justify their scratch. */
static GE_X86_FN int32_t conv2d_s8_x86_square(const ge_conv2d_params *p) {
    return GE_X86_WINOGRAD && p->groups == 1 && p->kernel_h == 3 && p->kernel_w == 3 && p->stride_h == 1 &&
           p->stride_w == 1 && p->dilation_h == 1 && p->dilation_w == 1 && p->out_w > 1 &&
           p->out_h * p->out_w * p->out_c >= CONV2D_S8_X86_LARGE && p->in_c % 16 == 0 &&
           p->in_c <= GE_X86_WINOGRAD_CHANNELS;
}

/* Computes `lines` rows of output, an even number, in squares; the runs of a line begin in its three input rows. */
static GE_X86_FN void conv2d_s8_x86_squares(const conv2d_s8_x86_layer *s, int32_t channels, int32_t lines,
                                            int32_t pixels, int8_t *const *o) {
    const int32_t across = (pixels + 1) / 2, squares = lines / 2 * across;
    ge_x86_sums *const sums = (ge_x86_sums *)s->squares;
    int16_t *const inputs = (int16_t *)(sums + 16 * CONV2D_S8_X86_SQUARES);
    int16_t *const weights = inputs + 16 * squares * channels;
    for (int32_t i = 0; i < squares; i++) {
        const ge_x86_element *const *runs = s->runs + 6 * (i / across);
        const int32_t column = 2 * (i % across), x = (column + 2 <= pixels ? column : pixels - 2) * channels;
        const ge_x86_element *const from[4] = {runs[0] + x, runs[1] + x, runs[2] + x, runs[5] + x};
        ge_x86_winograd_inputs(from, channels, squares * channels, inputs + i * channels);
    }
    for (int32_t vector = 0; vector < (s->out_c + 15) / 16; vector++) {
        int32_t count = 0;
        ge_x86_winograd_weights(s->weights + (ptrdiff_t)vector * 144 * channels, channels, weights);
        for (int32_t i = 0; i < squares; i += count) {
            count = squares - i >= 6 ? 6 : squares - i >= 4 ? 4 : 1;
            for (int32_t point = 0; point < 16; point++) {
                const int16_t *const w = weights + GE_X86_WINOGRAD_POINT(channels) * point;
                const int16_t *const x = inputs + (squares * point + i) * channels;
                if (count == 6) {
                    ge_x86_winograd_six(w, x, channels, sums + CONV2D_S8_X86_SQUARES * point);
                } else if (count == 4) {
                    ge_x86_winograd_four(w, x, channels, sums + CONV2D_S8_X86_SQUARES * point);
                } else {
                    ge_x86_winograd_one(w, x, channels, sums + CONV2D_S8_X86_SQUARES * point);
                }
            }
            for (int32_t j = 0; j < count; j++) {
                const int32_t column = 2 * ((i + j) % across), x = column + 2 <= pixels ? column : pixels - 2;
                int8_t *const *const to = o + (i + j) / across * 2;
                ge_x86_sums square[4];
                ge_x86_winograd_outputs(sums + j, CONV2D_S8_X86_SQUARES, s->bias + 16 * vector, square);
                conv2d_s8_x86_finish(s, square, vector, to[0] + x * s->out_c + 16 * vector, 2, 1, 0);
                conv2d_s8_x86_finish(s, square + 2, vector, to[1] + x * s->out_c + 16 * vector, 2, 1, 0);
            }
        }
    }
}

/* Computes all pixels of a kernel of one tap from inputs in place; returns 0 if it cannot. Images must be contiguous, and
 * a tile must have as many vectors as the layer, so that it reads all inputs before it writes outputs over them. */
static GE_X86_FN int32_t conv2d_s8_x86_raw_points(const ge_conv2d_params *p, conv2d_s8_x86_layer *s, const ge_rows *x,
                                                  const ge_rows *out, int32_t first_row, int32_t last_row) {
    const int32_t pixels = (last_row - first_row) * p->out_w, vectors = s->channels / 16;
    const int32_t in_place = p->groups == 1 && p->in_c % 4 == 0 && p->in_w == p->out_w && p->stride_h == 1 &&
                             x->slots == NULL && x->stride == p->in_w * p->in_c && out->slots == NULL &&
                             out->stride == p->out_w * p->out_c;
    const int32_t rows = in_place ? ge_x86_raw_rows(pixels, p->out_w, vectors) : 0;
    if (rows == 0 || !conv2d_s8_x86_plain(s, 0, vectors)) {
        return 0;
    }
    s->runs[0] = (const ge_x86_element *)ge_row(x, first_row);
    s->line = s->runs;
    s->line_count = 1;
    s->w = (const ge_x86_tap *)s->weights;
    switch (8 * rows + vectors) {
#define CONV2D_S8_X86_CALL_RAW(rows, wide)                                                                             \
    case 8 * rows + wide:                                                                                              \
        GE_X86_SIZED(conv2d_s8_x86_raw, rows, wide)(s, pixels, 0, (int8_t *)ge_row(out, first_row));                   \
        break;
        GE_X86_RAW_TILES(CONV2D_S8_X86_CALL_RAW)
    default:
        break;
    }
    return 1;
}

/* Computes rows for a kernel of one tap without padding. */
static GE_X86_FN void conv2d_s8_x86_points(const ge_conv2d_params *p, conv2d_s8_x86_layer *s, const ge_rows *x,
                                           const ge_rows *out, int32_t first_row, int32_t last_row,
                                           ge_x86_element *plane) {
    const int32_t follow = out->slots == NULL && out->stride == p->out_w * p->out_c;
    const int32_t most = follow && p->out_w < CONV2D_S8_X86_PIXELS ? CONV2D_S8_X86_PIXELS / p->out_w : 1;
    s->runs[0] = plane;
    for (int32_t y = first_row; y < last_row; y += most) {
        const int32_t rows = last_row - y < most ? last_row - y : most;
        ge_x86_element *to = plane;
        for (int32_t r = 0; r < rows; r++) {
            const int8_t *row = (const int8_t *)ge_row(x, (y + r) * p->stride_h);
            const int32_t pixels = p->stride_w == 1 ? 1 : p->out_w, together = p->out_w / pixels * p->in_c;
            for (int32_t i = 0; i < pixels; i++) {
                ge_x86_expand(to, row + i * p->stride_w * p->in_c, together);
                to += together;
            }
        }
        int8_t *const o = (int8_t *)ge_row(out, y);
        conv2d_s8_x86_strip(s, 1, rows * p->out_w, &o);
    }
}

/* Computes all outputs of `size` pixels, a constant. The outputs may overwrite inputs of earlier rows, so all inputs
 * are read first. */
static inline GE_X86_INLINE void conv2d_s8_x86_bytes(const conv2d_s8_x86_layer *s, const int8_t *const *x, int8_t *o,
                                                     const int32_t size) {
    const int32_t vectors = (s->out_c + 15) / 16, inputs = s->pitch;
    const int32_t block = size * inputs, next = GE_X86_BYTES_RECORD(inputs);
    const uint8_t *record = s->records, *from = s->ordered;
    const int8_t *w = s->pairs;
    int32_t vector = 0;
    for (; vector + GE_X86_BYTES_BLOCKS <= vectors; vector += GE_X86_BYTES_BLOCKS) {
        ge_x86_bytes_order(x, size, inputs, record + vector * next, s->ordered + vector * block, GE_X86_BYTES_BLOCKS);
    }
    for (; vector < vectors; vector++) {
        ge_x86_bytes_order(x, size, inputs, record + vector * next, s->ordered + vector * block, 1);
    }
    for (vector = 0; vector < vectors; vector++) {
        ge_x86_sums acc[16 * 2];
        GE_X86_UNROLL
        for (int32_t i = 0; i < size; i++) {
            acc[i] = ge_x86_load(s->bias + 16 * vector);
        }
        ge_x86_bytes_product(acc, w, from, inputs, record, size);
        conv2d_s8_x86_finish(s, acc, vector, o + 16 * vector, size, 1, 0);
        from += block;
        w += 64 * record[0];
        record += next;
    }
}

#define CONV2D_S8_X86_BYTES(size)                                                                                      \
    static GE_X86_FN GE_IN_ORDER void GE_X86_SIZED(conv2d_s8_x86_bytes, size, 1)(const conv2d_s8_x86_layer *s,         \
                                                                                 const int8_t *const *x, int8_t *o) {  \
        conv2d_s8_x86_bytes(s, x, o, size);                                                                            \
    }
CONV2D_S8_X86_BYTES(5)
CONV2D_S8_X86_BYTES(4)
CONV2D_S8_X86_BYTES(1)

/* Computes rows for a kernel of one tap whose weights have records. Output rows that are contiguous form one line. The
 * last tile overlaps the one before if it lies entirely in the last row, whose inputs still exist. */
static GE_X86_FN void conv2d_s8_x86_byte_points(const ge_conv2d_params *p, const conv2d_s8_x86_layer *s,
                                                const ge_rows *x, const ge_rows *out, int32_t first_row,
                                                int32_t last_row) {
    const int32_t follow = out->slots == NULL && out->stride == p->out_w * p->out_c;
    const int32_t lines = follow ? last_row - first_row : 1, pixels = lines * p->out_w;
    const int32_t wide = pixels % 4 == 0 || pixels % 5 > pixels % 4 ? 4 : 5;
    for (int32_t y = first_row; y < last_row; y += lines) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        int32_t line = 0, column = 0, size = 0;
        for (int32_t done = 0; done < pixels; done += size) {
            const int8_t *from[5];
            size = done + wide <= pixels || p->out_w >= wide ? wide : 1;
            if (done + size > pixels) {
                column -= done + size - pixels;
                done = pixels - size;
            }
            for (int32_t i = 0; i < size; i++) {
                from[i] = (const int8_t *)ge_row(x, (y + line) * p->stride_h) + column * p->stride_w * p->in_c;
                column++;
                line += column == p->out_w;
                column = column == p->out_w ? 0 : column;
            }
            if (size == 5) {
                GE_X86_SIZED(conv2d_s8_x86_bytes, 5, 1)(s, from, o + (ptrdiff_t)done * p->out_c);
            } else if (size == 4) {
                GE_X86_SIZED(conv2d_s8_x86_bytes, 4, 1)(s, from, o + (ptrdiff_t)done * p->out_c);
            } else {
                GE_X86_SIZED(conv2d_s8_x86_bytes, 1, 1)(s, from, o + (ptrdiff_t)done * p->out_c);
            }
        }
    }
}

/* Sets the addresses of the runs of an output row whose window has its first row in this slot of the ring. */
static GE_X86_FN void conv2d_s8_x86_runs(const ge_conv2d_params *p, int32_t across, const ge_x86_element *plane,
                                         int32_t row, int32_t slot, int32_t high, const ge_x86_element **runs) {
    const int32_t step = p->dilation_w * p->in_c, down = p->dilation_h;
    for (int32_t tap = 0; tap < p->kernel_h; tap++) {
        const ge_x86_element *at = plane + slot * row;
        for (int32_t column = 0; column < across; column++) {
            *runs = at;
            runs++;
            at += step;
        }
        slot += down;
        slot -= slot >= high ? high : 0;
    }
}

/* Sets the runs of a line whose window begins in input row `top`: all, except rows of padding whose elements are 0. */
static GE_X86_FN void conv2d_s8_x86_inside(const ge_conv2d_params *p, conv2d_s8_x86_layer *s, int32_t top,
                                           int32_t line) {
    const int32_t across = s->run_count / p->kernel_h;
    int32_t first = 0, last = p->kernel_h;
    while (p->in_zero_point == INT8_MIN && first < last && top + first * p->dilation_h < 0) {
        first++;
    }
    while (p->in_zero_point == INT8_MIN && last > first && top + (last - 1) * p->dilation_h >= p->in_h) {
        last--;
    }
    s->first_run[line] = first * across;
    s->last_run[line] = last * across;
}

/* Returns whether a row of the kernel is one step and the image is small. */
static GE_X86_FN int32_t conv2d_s8_x86_small(const ge_conv2d_params *p) {
    const int32_t rows = (p->out_h - 1) * p->stride_h + p->kernel_h;
    return p->groups == 1 && p->dilation_h == 1 && p->dilation_w == 1 && p->kernel_w * p->in_c <= 4 &&
           4 * rows * p->out_w <= CONV2D_S8_X86_SMALL;
}

/* Computes rows where a window has one step in each row: for each output column, the steps of all input rows are stored
 * one below the other, as one run. */
static GE_X86_FN void conv2d_s8_x86_steps(const ge_conv2d_params *p, conv2d_s8_x86_layer *s, const ge_rows *x,
                                          const ge_rows *out, int32_t first_row, int32_t last_row,
                                          ge_x86_element *plane) {
    const int32_t rows = (last_row - first_row - 1) * p->stride_h + p->kernel_h, step = p->stride_w * p->in_c;
    const int32_t columns = (p->out_w - 1) * p->stride_w + p->kernel_w, top = first_row * p->stride_h - p->pad_top;
    ge_x86_element *const row = plane + 4 * rows * p->out_w;
    for (int32_t r = 0; r < rows; r++) {
        ge_x86_expand_input(p, x, top + r, columns, row);
        for (int32_t column = 0; column < p->out_w; column++) {
            memcpy(plane + 4 * (column * rows + r), row + column * step, 4 * sizeof *row);
        }
    }
    s->pitch = 4 * rows;
    s->steps = p->kernel_h;
    s->run_count = 1;
    for (int32_t line = 0; line < CONV2D_S8_X86_LINES; line++) {
        s->last_run[line] = 1;
    }
    for (int32_t y = first_row, lines = 0; y < last_row; y += lines) {
        int8_t *o[CONV2D_S8_X86_LINES];
        lines = last_row - y < CONV2D_S8_X86_LINES ? last_row - y : CONV2D_S8_X86_LINES;
        for (int32_t line = 0; line < lines; line++) {
            s->runs[line] = plane + 4 * (y + line - first_row) * p->stride_h;
            o[line] = (int8_t *)ge_row(out, y + line);
        }
        conv2d_s8_x86_strip(s, lines, p->out_w, o);
    }
}

/* Computes rows for any window: input rows lie in a ring that holds the windows of several output rows, which share the
 * widened weights. */
static GE_X86_FN void conv2d_s8_x86_windows(const ge_conv2d_params *p, conv2d_s8_x86_layer *s, const ge_rows *x,
                                            const ge_rows *out, int32_t first_row, int32_t last_row,
                                            ge_x86_element *plane) {
    const int32_t window = (p->kernel_h - 1) * p->dilation_h + 1;
    const int32_t high = window + (CONV2D_S8_X86_LINES - 1) * p->stride_h;
    const int32_t columns = (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
    const int32_t row = columns * p->in_c, across = s->run_count / p->kernel_h;
    int32_t next = first_row * p->stride_h - p->pad_top, slot_of_next = 0, slot_of_top = 0;
    const int32_t square = conv2d_s8_x86_square(p);
    int32_t lines = 0;
    for (int32_t y = first_row; y < last_row; y += lines) {
        const int32_t top = y * p->stride_h - p->pad_top;
        lines = last_row - y < CONV2D_S8_X86_LINES ? last_row - y : CONV2D_S8_X86_LINES;
        lines -= square && lines > 1 ? lines % 2 : 0;
        int8_t *o[CONV2D_S8_X86_LINES];
        for (; next < top + (lines - 1) * p->stride_h + window; next++) {
            if (next >= top) {
                ge_x86_expand_input(p, x, next, columns, plane + slot_of_next * row);
            }
            slot_of_next = slot_of_next + 1 == high ? 0 : slot_of_next + 1;
        }
        for (int32_t line = 0; line < lines; line++) {
            conv2d_s8_x86_runs(p, across, plane, row, slot_of_top, high, s->runs + line * s->run_count);
            conv2d_s8_x86_inside(p, s, top + line * p->stride_h, line);
            o[line] = (int8_t *)ge_row(out, y + line);
            slot_of_top = (slot_of_top + p->stride_h) % high;
        }
        if (square && lines > 1) {
            conv2d_s8_x86_squares(s, p->in_c, lines, p->out_w, o);
        } else {
            conv2d_s8_x86_strip(s, lines, p->out_w, o);
        }
    }
}

static GE_X86_FN void ge_conv2d_s8_x86(const ge_conv2d_params *p, const ge_rows *x, const int8_t *weights,
                                       const int32_t *bias, const int32_t *multiplier, const float *scale,
                                       const int8_t *pairs, const uint8_t *records, const ge_rows *out,
                                       int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t across = p->dilation_w == 1 && p->groups == 1 ? 1 : p->kernel_w, run_count = p->kernel_h * across;
    const int32_t span = p->groups == 1 ? p->in_c : ge_x86_group_span(p), run = p->kernel_w / across * span;
    const uintptr_t behind = (uintptr_t)scratch + 63 + (uintptr_t)(CONV2D_S8_X86_LINES * run_count) * sizeof(void *);
    conv2d_s8_x86_layer s = {0};
    s.runs = (const ge_x86_element **)scratch;
    s.run_count = run_count;
    s.steps = (run + 3) / 4;
    s.pitch = p->stride_w * p->in_c;
    s.out_c = p->out_c;
    s.channels = (p->out_c + 15) / 16 * 16;
    s.moved = bias[3 * s.channels] ? bias + s.channels : NULL;
    s.group_in = p->groups == 1 ? 0 : p->in_c / p->groups;
    s.group_out = p->out_c / p->groups;
    s.last_begin = p->in_c - span;
    s.weights = weights;
    s.room = (ge_x86_tap *)(behind & ~(uintptr_t)63);
    s.bias = bias;
    s.multiplier = multiplier;
    s.scale = scale;
    for (int32_t line = 0; line < CONV2D_S8_X86_LINES; line++) {
        s.last_run[line] = run_count;
    }
    s.sweeps = p->kernel_w == 3 && p->stride_w == 1 && p->dilation_w == 1 && p->groups == 1 && p->in_c % 4 == 0;
    s.bordered = p->in_zero_point == INT8_MIN && p->pad_left == 1 && p->out_w == p->in_w;
    s.law = ge_x86_law_of(p->shift, p->out_zero_point, p->lo, p->hi);
    const int32_t squares = conv2d_s8_x86_square(p) ? (p->out_w + 1) / 2 * (CONV2D_S8_X86_LINES / 2) : 0;
    const uintptr_t points = 16 * (uintptr_t)(p->in_c * (squares + 16) + 32) * sizeof(int16_t);
    s.squares = s.room;
    const int32_t all = (p->out_c + 15) / 16 * 64 * run_count * s.steps;
    s.kept = GE_X86_TAPS_BYTES(all) > 0 && all <= CONV2D_S8_X86_KEPT;
    const uintptr_t taps = GE_X86_TAPS_BYTES((uintptr_t)(s.kept ? all : 64 * run_count * s.steps));
    const uintptr_t shared = squares > 0 && 6144 + points > taps ? 6144 + points : taps;
    ge_x86_element *const plane = (ge_x86_element *)((uintptr_t)s.room + shared);
    if (p->kernel_h * p->kernel_w == 1 && p->pad_top == 0 && p->pad_left == 0 &&
        (p->out_w - 1) * p->stride_w < p->in_w && (p->out_h - 1) * p->stride_h < p->in_h) {
        s.pitch = p->in_c;
        if (GE_X86_BYTES && p->groups == 1 && records[0] > 0) {
            s.pairs = pairs;
            s.records = records;
            s.ordered = (uint8_t *)s.room;
            conv2d_s8_x86_byte_points(p, &s, x, out, first_row, last_row);
            return;
        }
        if (!conv2d_s8_x86_raw_points(p, &s, x, out, first_row, last_row)) {
            conv2d_s8_x86_points(p, &s, x, out, first_row, last_row, plane);
        }
    } else if (conv2d_s8_x86_small(p)) {
        conv2d_s8_x86_steps(p, &s, x, out, first_row, last_row, plane);
    } else {
        conv2d_s8_x86_windows(p, &s, x, out, first_row, last_row, plane);
    }
}
