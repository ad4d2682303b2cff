/* Depthwise convolution of int8 [H, W, C] with int8 weights [kh, kw, C]: one source for every level of x86-64.
 *
 * Rows of input become elements (ge_x86_portable.h) in scratch, with their padding, in a ring; where windows are
 * `stride` columns apart, column x goes to part x % stride of its row. For one tap, the elements that an output row
 * reads are then contiguous just like the outputs, so the work is a run of positions and pixels do not matter. Four
 * taps of one column of the kernel are interleaved to a quad for each position, and a quad is multiplied and summed
 * like four inputs of a matrix product. With three kernel rows and a vertical stride of 1, the quads of four input rows
 * serve two output rows.
 *
 * Weights repeat along a row with the channels: they are stored for as many groups of 64 positions as it takes until
 * they repeat, or, where that would be too many, for the channels of one pixel, and every pixel begins a group. Sums
 * are kept in `lanes`, in the order that results from interleaving within 16 bytes.
 *
 * For kernels of three columns, a level with GE_X86_SWEEP reads the image in place instead, column by column along an
 * output row: the quads of a column stay in registers for the up to three outputs that use it.
 */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_law.h"
#include "ge_x86_row_pairs.h"
#include "ge_x86_sweep.h"

/* clang-format off */
#define DEPTHWISE_S8_X86_GROUP 64   /* positions that share a block of constants */
#define DEPTHWISE_S8_X86_REPEAT 640 /* positions after which weights must repeat at the latest */
#define DEPTHWISE_S8_X86_LAW default
#define DEPTHWISE_S8_X86_PAIRS 1 /* whether ge_x86_row_pairs.h supports this law */
/* clang-format on */

typedef struct {
    const ge_x86_element **taps; /* four pointers for each quad */
    const ge_x86_tap *weights;   /* [group][quad][rows][256] */
    const int32_t *bias;         /* [group][64] */
    const int32_t *multiplier;
    const float *scale;
    int32_t quads;
    int32_t groups;
    int32_t rows; /* output rows that a block of weights serves: 1 or 2 */
    int32_t flat; /* whether groups run across pixels */
    ge_x86_law law;
} depthwise_s8_x86_layer;

/* Adds one quad to the sums of the positions from `at` on; `rows` is a constant. */
static inline GE_X86_INLINE void depthwise_s8_x86_quad(const depthwise_s8_x86_layer *s, int32_t quad, int32_t at,
                                                       const ge_x86_tap *w, int32_t unit, ge_x86_lanes acc[2],
                                                       const int32_t rows) {
    const ge_x86_element *const *t = s->taps + 4 * quad;
    const ge_x86_quads x = ge_x86_interleave(t[0] + at, t[1] + at, t[2] + at, t[3] + at);
    GE_X86_UNROLL
    for (int32_t r = 0; r < rows; r++) {
        acc[r] = ge_x86_lanes_dot(acc[r], w + 256 * r, unit, x);
    }
}

/* Computes `positions` outputs from `begin` on, for `rows` output rows at once, a constant; `quads` is a constant, or
 * 0. */
static inline GE_X86_INLINE void depthwise_s8_x86_run(const depthwise_s8_x86_layer *s, int32_t begin, int32_t positions,
                                                      int8_t *const o[2], const int32_t rows, const int32_t quads) {
    int32_t unit = 0, group = 0;
    for (int32_t at = 0; at < positions; at += GE_X86_UNIT) {
        const ge_x86_tap *w = s->weights + group * s->quads * s->rows * 256;
        const int32_t c = group * DEPTHWISE_S8_X86_GROUP, left = positions - at;
        ge_x86_lanes acc[2];
        GE_X86_UNROLL
        for (int32_t r = 0; r < rows; r++) {
            acc[r] = ge_x86_lanes_load(s->bias + c, unit);
        }
        const int32_t *const words = s->multiplier + c * GE_X86_WORDS(DEPTHWISE_S8_X86_LAW);
        const float *const floats = s->scale + c * GE_X86_ROWS(DEPTHWISE_S8_X86_LAW);
        const int32_t form = ge_x86_form(floats);
        GE_X86_UNROLL
        for (int32_t quad = 0; quad < quads; quad++) {
            depthwise_s8_x86_quad(s, quad, begin + at, w, unit, acc, rows);
            w += 256 * s->rows;
        }
        for (int32_t quad = 0; quads == 0 && quad < s->quads; quad++) {
            depthwise_s8_x86_quad(s, quad, begin + at, w, unit, acc, rows);
            w += 256 * s->rows;
        }
        GE_X86_UNROLL
        for (int32_t r = 0; r < rows; r++) {
            const ge_x86_lanes y = GE_X86_BY(DEPTHWISE_S8_X86_LAW, _lanes)(acc[r], words, floats, unit, form, &s->law);
            ge_x86_lanes_store(o[r] + begin + at, y, left < GE_X86_UNIT ? left : GE_X86_UNIT, &s->law);
        }
        unit++;
        if (unit == DEPTHWISE_S8_X86_GROUP / GE_X86_UNIT) {
            unit = 0;
            group = group + 1 == s->groups ? 0 : group + 1;
        }
    }
}

static GE_X86_FN void depthwise_s8_x86_one(const depthwise_s8_x86_layer *s, int32_t begin, int32_t positions,
                                           int8_t *const o[2]) {
    depthwise_s8_x86_run(s, begin, positions, o, 1, 0);
}

static GE_X86_FN void depthwise_s8_x86_two(const depthwise_s8_x86_layer *s, int32_t begin, int32_t positions,
                                           int8_t *const o[2]) {
    depthwise_s8_x86_run(s, begin, positions, o, 2, 0);
}

/* Unrolled for a kernel of three columns. */
static GE_X86_FN void depthwise_s8_x86_one_by_three(const depthwise_s8_x86_layer *s, int32_t begin, int32_t positions,
                                                    int8_t *const o[2]) {
    depthwise_s8_x86_run(s, begin, positions, o, 1, 3);
}

static GE_X86_FN void depthwise_s8_x86_two_by_three(const depthwise_s8_x86_layer *s, int32_t begin, int32_t positions,
                                                    int8_t *const o[2]) {
    depthwise_s8_x86_run(s, begin, positions, o, 2, 3);
}

/* A block of a sweep: 64 channels. The last 64 channels overlap those before where groups run across pixels, because
 * the last group holds their constants. */
typedef struct {
    ge_x86_sweep x;
    int32_t channel;
    int32_t constants; /* position of the channel's constants among those of all groups */
    int32_t step;      /* input columns from one register of outputs to the next */
    int32_t bytes;     /* bytes of an output row for these channels */
} depthwise_s8_x86_block;

/* Fills in the block that begins at channel `c`. */
static inline GE_X86_INLINE void depthwise_s8_x86_block_at(const depthwise_s8_x86_layer *s, const ge_conv2d_params *p,
                                                           int32_t c, int32_t flat, depthwise_s8_x86_block *block) {
    const int32_t group = DEPTHWISE_S8_X86_GROUP, left = p->in_c - c;
    const int32_t early = flat && c > 0 && left < group ? group - left : 0;
    block->channel = c - early;
    block->constants = early > 0 ? (s->groups - 1) * group : c;
    block->x.apart = left < group - early ? left : group;
    block->x.bytes = block->x.pixels * block->x.apart;
    block->x.used = ge_x86_sweep_first(block->x.bytes);
    block->bytes = p->out_w * block->x.apart;
}

/* Loads a column of the block, or as many as there are in a register where none is kept. */
static inline GE_X86_INLINE ge_x86_quads depthwise_s8_x86_column(const depthwise_s8_x86_block *block, int32_t column,
                                                                 const int32_t kept) {
    return kept > 0 ? ge_x86_sweep_column(&block->x, column, block->channel)
                    : ge_x86_sweep_columns(&block->x, column, block->channel);
}

/* Computes one or two output rows of a block, column by column. `rows` and `kept` are constants: the next output uses
 * `kept` of this output's columns again. */
static inline GE_X86_INLINE void depthwise_s8_x86_columns(const depthwise_s8_x86_layer *s,
                                                          const depthwise_s8_x86_block *block, int32_t column,
                                                          int8_t *const o[2], const ge_x86_law *law, const int32_t rows,
                                                          const int32_t kept) {
    const int32_t c = block->constants, apart = rows == 2 ? 512 : 256 * s->rows;
    const ge_x86_tap *w = s->weights + 12 * s->rows * c;
    const int32_t *bias = s->bias + c, *words = s->multiplier + c * GE_X86_WORDS(DEPTHWISE_S8_X86_LAW);
    const float *floats = s->scale + c * GE_X86_ROWS(DEPTHWISE_S8_X86_LAW);
    const int32_t form = ge_x86_form(floats), most = block->x.bytes, step = block->step;
    int8_t *to[2] = {o[0] + block->channel, o[1] + block->channel};
    ge_x86_quads quads[3];
    GE_X86_UNROLL
    for (int32_t k = 0; k < kept; k++) {
        quads[k] = depthwise_s8_x86_column(block, column + k, kept);
    }
    for (int32_t left = block->bytes; left > 0; left -= most) {
        const int32_t count = left < most ? left : most;
        ge_x86_lanes acc[2];
        acc[0] = ge_x86_sweep_sums(bias);
        acc[1] = acc[0];
        GE_X86_UNROLL
        for (int32_t k = kept; k < 3; k++) {
            quads[k] = depthwise_s8_x86_column(block, column + k, kept);
        }
        GE_FROM(w);
        GE_FROM(bias);
        GE_FROM(words);
        GE_FROM(floats);
        GE_X86_UNROLL
        for (int32_t r = 0; r < rows; r++) {
            GE_X86_UNROLL
            for (int32_t k = 0; k < 3; k++) {
                acc[r] = ge_x86_lanes_dot(acc[r], w + apart * k + 256 * r, 0, quads[k]);
            }
        }
        GE_X86_UNROLL
        for (int32_t r = 0; r < rows; r++) {
            acc[r] = GE_X86_BY(DEPTHWISE_S8_X86_LAW, _lanes)(acc[r], words, floats, 0, form, law);
        }
        GE_X86_UNROLL
        for (int32_t r = 0; r < rows; r++) {
            ge_x86_lanes_store(to[r], acc[r], count, law);
            to[r] += (ptrdiff_t)block->x.pixels * block->x.pitch;
        }
        GE_X86_UNROLL
        for (int32_t k = 0; k < kept; k++) {
            quads[k] = quads[3 - kept + k];
        }
        column += step;
    }
}

/* Sets the input rows for output row y, and copies the highest one to `none` where the lower of two output rows may
 * overwrite what is still to be read of it. A sweep over a single block whose registers hold one pixel has read the
 * columns up to the output's own, so there the output may lie over the row, or before it. */
static inline GE_X86_INLINE void depthwise_s8_x86_rows(const ge_conv2d_params *p, const ge_rows *x, int32_t y,
                                                       int8_t *const o[2], int8_t *none, const int32_t rows,
                                                       const int8_t *row[4]) {
    const int32_t bytes = p->in_w * p->in_c, top = y * p->stride_h - p->pad_top, taps = p->kernel_h + rows - 1;
    for (int32_t r = 0; r < 4; r++) {
        const int32_t iy = top + (r < taps ? r : 0) * p->dilation_h;
        row[r] = iy >= 0 && iy < p->in_h ? (const int8_t *)ge_row(x, iy) : none;
    }
    const int32_t behind = p->stride_w == 1 && p->in_c == DEPTHWISE_S8_X86_GROUP && p->pad_left < 3 && o[1] <= row[0];
    if (rows == 2 && !behind && row[0] < o[1] + p->out_w * p->out_c && o[1] < row[0] + bytes) {
        row[0] = (const int8_t *)memcpy(none + bytes, row[0], (size_t)bytes);
    }
}

/* Computes output rows from y on, as long as there are `rows` of them; returns the first row that is left. */
static inline GE_X86_INLINE int32_t depthwise_s8_x86_sweep(const depthwise_s8_x86_layer *s, const ge_conv2d_params *p,
                                                           const ge_rows *x, const ge_rows *out, int32_t y,
                                                           int32_t last_row, int8_t *none, const int32_t rows,
                                                           const int32_t kept) {
    const int32_t flat = s->flat;
    const ge_x86_law law = s->law;
    depthwise_s8_x86_block block;
    ge_x86_sweep_begin(&block.x, p->in_zero_point);
    block.x.columns = p->in_w;
    block.x.pitch = p->in_c;
    block.x.pixels =
        kept == 0 && p->stride_w == 1 && p->in_c < DEPTHWISE_S8_X86_GROUP ? DEPTHWISE_S8_X86_GROUP / p->in_c : 1;
    block.step = block.x.pixels * p->stride_w;
    for (; y + rows <= last_row; y += rows) {
        int8_t *const o[2] = {(int8_t *)ge_row(out, y), (int8_t *)ge_row(out, y + rows - 1)};
        depthwise_s8_x86_rows(p, x, y, o, none, rows, block.x.row);
        for (int32_t c = 0; c < p->in_c; c += DEPTHWISE_S8_X86_GROUP) {
            depthwise_s8_x86_block_at(s, p, c, flat, &block);
            depthwise_s8_x86_columns(s, &block, -p->pad_left, o, &law, rows, kept);
        }
    }
    return y;
}

#define DEPTHWISE_S8_X86_SWEEP(rows, kept)                                                                             \
    static GE_X86_FN int32_t GE_X86_SIZED(depthwise_s8_x86_sweep, rows, kept)(                                         \
        const depthwise_s8_x86_layer *s, const ge_conv2d_params *p, const ge_rows *x, const ge_rows *out, int32_t y,   \
        int32_t last_row, int8_t *none) {                                                                              \
        return depthwise_s8_x86_sweep(s, p, x, out, y, last_row, none, rows, kept);                                    \
    }
DEPTHWISE_S8_X86_SWEEP(2, 2)
DEPTHWISE_S8_X86_SWEEP(2, 0)
DEPTHWISE_S8_X86_SWEEP(1, 1)
DEPTHWISE_S8_X86_SWEEP(1, 0)

/* Returns whether a layer is swept: the kernel has three columns of one quad each, and enough lanes of a register are
 * used. */
static GE_X86_FN int32_t depthwise_s8_x86_sweeps(const ge_conv2d_params *p) {
    return p->kernel_w == 3 && p->kernel_h <= 4 && p->dilation_w == 1 && (p->stride_w == 1 || p->in_c >= 16);
}

/* Computes a layer column by column from the input in place. */
static GE_X86_FN void depthwise_s8_x86_swept(const depthwise_s8_x86_layer *s, const ge_conv2d_params *p,
                                             const ge_rows *x, const ge_rows *out, int32_t y, int32_t last_row,
                                             int8_t *none) {
    memset(none, p->in_zero_point, (size_t)(p->in_w * p->in_c));
    if (s->rows == 2 && p->stride_w == 1 && p->in_c > DEPTHWISE_S8_X86_GROUP / 2) {
        y = GE_X86_SIZED(depthwise_s8_x86_sweep, 2, 2)(s, p, x, out, y, last_row, none);
    } else if (s->rows == 2) {
        y = GE_X86_SIZED(depthwise_s8_x86_sweep, 2, 0)(s, p, x, out, y, last_row, none);
    }
    if (p->stride_w == 2) {
        GE_X86_SIZED(depthwise_s8_x86_sweep, 1, 1)(s, p, x, out, y, last_row, none);
    } else {
        GE_X86_SIZED(depthwise_s8_x86_sweep, 1, 0)(s, p, x, out, y, last_row, none);
    }
}

/* Layout of the elements of a row: `parts` of `length` columns. */
typedef struct {
    int32_t parts;
    int32_t length;
    int32_t row; /* elements */
} depthwise_s8_x86_plane;

static GE_X86_FN depthwise_s8_x86_plane depthwise_s8_x86_plane_of(const ge_conv2d_params *p) {
    const int32_t columns = (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
    depthwise_s8_x86_plane plane;
    plane.parts = p->stride_w;
    plane.length = (columns + p->stride_w - 1) / p->stride_w;
    plane.row = plane.parts * plane.length * p->in_c;
    return plane;
}

/* Expands input row iy, or padding. */
static GE_X86_FN void depthwise_s8_x86_expand(const ge_conv2d_params *p, const depthwise_s8_x86_plane *plane,
                                              const ge_rows *x, int32_t iy, ge_x86_element *to) {
    const int8_t *const row = iy >= 0 && iy < p->in_h ? (const int8_t *)ge_row(x, iy) : NULL;
    const ge_x86_element zero = (ge_x86_element)(p->in_zero_point + 128);
    const int32_t step = plane->parts, c = p->in_c;
    for (int32_t part = 0; part < step; part++) {
        ge_x86_element *const at = to + part * plane->length * c;
        const int32_t left = p->pad_left - part, right = p->in_w + left;
        const int32_t begin = row != NULL && left > 0 ? (left + step - 1) / step : 0;
        const int32_t first = begin < plane->length ? begin : plane->length;
        const int32_t end = row != NULL && right > 0 ? (right + step - 1) / step : 0;
        const int32_t last = end < first ? first : (end < plane->length ? end : plane->length);
        ge_x86_fill(at, zero, first * c);
        if (step == 1 && last > first) {
            ge_x86_expand(at + first * c, row + (first - left) * c, (last - first) * c);
        }
        for (int32_t i = first; step > 1 && i < last; i++) {
            ge_x86_expand(at + i * c, row + (i * step - left) * c, c);
        }
        ge_x86_fill(at + last * c, zero, (plane->length - last) * c);
    }
}

static GE_X86_FN void ge_depthwise_s8_x86(const ge_conv2d_params *p, const ge_rows *x, const int8_t *weights,
                                          const int32_t *bias, const int32_t *multiplier, const float *scale,
                                          const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const depthwise_s8_x86_plane plane = depthwise_s8_x86_plane_of(p);
    const int32_t both = p->kernel_h == 3 && p->stride_h == 1 && p->dilation_h == 1;
    const int32_t high = (p->kernel_h - 1) * p->dilation_h + 1 + both, down = (p->kernel_h + 3) / 4;
    if (DEPTHWISE_S8_X86_PAIRS && GE_X86_ROW_PAIRS && both && p->kernel_w == 3 && p->in_c % 8 == 0) {
        ge_x86_row_pairs_layer(p, x, weights, bias, multiplier, scale, out, first_row, last_row, scratch);
        return;
    }
    int32_t a = p->in_c, b = DEPTHWISE_S8_X86_GROUP;
    while (b != 0) {
        const int32_t rest = a % b;
        a = b;
        b = rest;
    }
    const int32_t repeat = p->in_c / a * DEPTHWISE_S8_X86_GROUP, flat = repeat <= DEPTHWISE_S8_X86_REPEAT;
    depthwise_s8_x86_layer s = {0};
    s.quads = p->kernel_w * down;
    s.groups = flat ? repeat / DEPTHWISE_S8_X86_GROUP : (p->in_c + DEPTHWISE_S8_X86_GROUP - 1) / DEPTHWISE_S8_X86_GROUP;
    s.rows = 1 + both;
    s.bias = bias;
    s.multiplier = multiplier;
    s.scale = scale;
    s.law = ge_x86_law_of(p->shift, p->out_zero_point, p->lo, p->hi);
    s.flat = flat;
    if (GE_X86_SWEEP && depthwise_s8_x86_sweeps(p)) {
        s.weights = ge_x86_taps_of((ge_x86_tap *)scratch, weights, 0);
        depthwise_s8_x86_swept(&s, p, x, out, first_row, last_row, (int8_t *)scratch);
        return;
    }
    s.taps = (const ge_x86_element **)scratch;
    uintptr_t free = ((uintptr_t)scratch + (uintptr_t)s.quads * 4 * sizeof(void *) + 63) & ~(uintptr_t)63;
    s.weights = ge_x86_taps_of((ge_x86_tap *)free, weights, s.groups * s.quads * s.rows * 256);
    free += (uintptr_t)GE_X86_TAPS_BYTES((uintptr_t)(s.groups * s.quads * s.rows * 256));
    int32_t *const offsets = (int32_t *)free;
    ge_x86_element *const ring = (ge_x86_element *)(free + (uintptr_t)((p->kernel_w + 15) / 16 * 64));
    for (int32_t column = 0; column < p->kernel_w; column++) {
        const int32_t at = column * p->dilation_w;
        offsets[column] = (at % plane.parts * plane.length + at / plane.parts) * p->in_c;
    }

    int32_t next = first_row * p->stride_h - p->pad_top;
    for (int32_t y = first_row; y < last_row;) {
        const int32_t top = y * p->stride_h - p->pad_top, rows = both && y + 1 < last_row ? 2 : 1;
        const int32_t end = top + high - both + rows - 1;
        for (next = next > top ? next : top; next < end; next++) {
            depthwise_s8_x86_expand(p, &plane, x, next, ring + (next + p->pad_top) % high * plane.row);
        }
        const ge_x86_element *const highest = ring + (top + p->pad_top) % high * plane.row;
        for (int32_t tap = 0; tap < 4 * down; tap++) {
            const ge_x86_element *at = highest + (tap < p->kernel_h + rows - 1 ? tap : 0) * p->dilation_h * plane.row;
            at -= at >= ring + high * plane.row ? high * plane.row : 0;
            for (int32_t column = 0; column < p->kernel_w; column++) {
                s.taps[4 * (column * down + tap / 4) + tap % 4] = at + offsets[column];
            }
        }
        int8_t *const o[2] = {(int8_t *)ge_row(out, y), (int8_t *)ge_row(out, y + rows - 1)};
        const int32_t runs = flat ? 1 : p->out_w, positions = flat ? p->out_w * p->out_c : p->out_c;
        for (int32_t i = 0; i < runs; i++) {
            if (s.quads == 3 && rows == 2) {
                depthwise_s8_x86_two_by_three(&s, i * positions, positions, o);
            } else if (s.quads == 3) {
                depthwise_s8_x86_one_by_three(&s, i * positions, positions, o);
            } else if (rows == 2) {
                depthwise_s8_x86_two(&s, i * positions, positions, o);
            } else {
                depthwise_s8_x86_one(&s, i * positions, positions, o);
            }
        }
        y += rows;
    }
}
