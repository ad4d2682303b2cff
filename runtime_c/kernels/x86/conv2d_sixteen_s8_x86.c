/* Grouped convolution of int8 [H, W, C], where an output reads at most eight channels: one source for every level of
 * x86-64.
 *
 * One step multiplies sixteen channels of a pixel by the weights of sixteen outputs, or of 32 (ge_x86_sixteen in
 * ge_x86_portable.h): each four outputs read the same four channels. With groups of 1, 2 or 4 channels, that is a whole
 * tap of an output. With groups of 8 channels an output is the sum of two numbers, so two sets of weights (`parts`) are
 * multiplied and their neighbours are added at the end.
 *
 * Rows of input become elements in scratch, with their padding, in a ring as high as the window. Where a kernel has
 * three adjacent columns, each column of the input is loaded once for all of them.
 *
 * The outputs of a vector lie in four places of four channels. They are contiguous if a group has as many outputs as
 * inputs. Channels that do not exist have weights of zero, and are not stored.
 */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_law.h"
#include "ge_x86_portable.h"
#include "ge_x86_sweep.h"

/* clang-format off */
#define CONV2D_SIXTEEN_S8_X86_LAW default
/* clang-format on */

/* Data that all tiles of a layer share. */
typedef struct {
    const ge_x86_element **rows; /* [kernel_h]: rows of the input in the ring that an output row reads */
    int32_t kernel_h;
    int32_t kernel_w;
    int32_t step;  /* elements from column to column of the kernel */
    int32_t pitch; /* elements from pixel to pixel */
    int32_t parts;
    int32_t place; /* outputs that read the same four channels, or eight channels if there are two parts */
    int32_t units; /* vectors that read the same sixteen channels */
    int32_t out_c;
    const ge_x86_tap *weights; /* [vectors][kernel_h][kernel_w][parts][64] */
    const int32_t *bias;
    const int32_t *multiplier;
    const float *scale;
    ge_x86_law law;
} conv2d_sixteen_s8_x86_layer;

/* Stores the outputs of one pixel, from place to place. */
static GE_X86_FN void conv2d_sixteen_s8_x86_scatter(const conv2d_sixteen_s8_x86_layer *s, const int8_t *sixteen,
                                                    int32_t first, int8_t *o) {
    for (int32_t k = 0; k < 4; k++) {
        const int32_t channel = first + (s->parts == 2 ? k / 2 * s->place + k % 2 * 4 : k * s->place);
        const int32_t left = s->out_c - channel;
        if (left >= 4) {
            memcpy(o + channel, sixteen + 4 * k, 4);
        } else if (left > 0) {
            memcpy(o + channel, sixteen + 4 * k, (size_t)left);
        }
    }
}

/* Requantizes and stores the outputs of `count` pixels of a vector to `o`; `count` and `parts` are constants. */
static inline GE_X86_INLINE void conv2d_sixteen_s8_x86_finish(const conv2d_sixteen_s8_x86_layer *s,
                                                              const ge_x86_fours *acc, int32_t vector, int8_t *o,
                                                              const int32_t count, const int32_t parts) {
    const int32_t *const words = s->multiplier + 16 * vector * GE_X86_WORDS(CONV2D_SIXTEEN_S8_X86_LAW);
    const float *const rows_of = s->scale + 16 * vector * GE_X86_ROWS(CONV2D_SIXTEEN_S8_X86_LAW);
    const int32_t form = ge_x86_form(rows_of), places = 4 / parts;
    const int32_t first = vector / s->units * places * s->place + vector % s->units * 4 * parts;
    const ge_x86_sums bias = ge_x86_load(s->bias + 16 * vector);
    ge_x86_sums y[16];
    GE_X86_UNROLL
    for (int32_t i = 0; i < count; i++) {
        const ge_x86_sums one = ge_x86_fours_sums(acc[i * parts]);
        y[i] = parts == 2 ? ge_x86_neighbours(one, ge_x86_fours_sums(acc[i * parts + parts - 1])) : one;
        y[i] = ge_x86_add(y[i], bias);
    }
    if (form == 0) {
        GE_X86_UNROLL
        for (int32_t i = 0; i < count; i++) {
            y[i] = GE_X86_BY(CONV2D_SIXTEEN_S8_X86_LAW, _sums)(y[i], words, rows_of, 0, &s->law);
        }
    } else {
        GE_X86_UNROLL
        for (int32_t i = 0; i < count; i++) {
            y[i] = GE_X86_BY(CONV2D_SIXTEEN_S8_X86_LAW, _sums)(y[i], words, rows_of, form, &s->law);
        }
    }
    if (s->place == 4 * parts && first + 16 <= s->out_c) {
        GE_X86_UNROLL
        for (int32_t i = 0; i + 4 <= count; i += 4) {
            int8_t *const at = o + first + i * s->out_c;
            int8_t *const to[4] = {at, at + s->out_c, at + 2 * s->out_c, at + 3 * s->out_c};
            ge_x86_store_turned4(to, y + i, parts, &s->law);
        }
        GE_X86_UNROLL
        for (int32_t i = count / 4 * 4; i < count; i++) {
            ge_x86_store_turned1(o + i * s->out_c + first, y[i], parts, &s->law);
        }
    } else if (parts == 1 && s->place == 8 && first + 28 <= s->out_c) {
        GE_X86_UNROLL
        for (int32_t i = 0; i < count; i++) {
            ge_x86_store_apart(o + i * s->out_c + first, y[i], &s->law);
        }
    } else {
        int8_t sixteen[16];
        GE_X86_UNROLL
        for (int32_t i = 0; i < count; i++) {
            ge_x86_store_turned1(sixteen, y[i], parts, &s->law);
            conv2d_sixteen_s8_x86_scatter(s, sixteen, first, o + i * s->out_c);
        }
    }
}

/* Three adjacent columns of the kernel: each column of the input is multiplied by all weights that apply to it. */
static inline GE_X86_INLINE void conv2d_sixteen_s8_x86_sweep(ge_x86_fours *acc, const ge_x86_tap *w,
                                                             const ge_x86_element *x, int32_t pitch,
                                                             const int32_t count, const int32_t parts) {
    GE_X86_UNROLL
    for (int32_t column = 0; column < count + 2; column++) {
        const ge_x86_sixteen input = ge_x86_sixteen_at(x + column * pitch);
        GE_X86_UNROLL
        for (int32_t tap = 0; tap < 3; tap++) {
            const int32_t i = column - tap;
            GE_X86_UNROLL
            for (int32_t part = 0; part < parts; part++) {
                if (i >= 0 && i < count) {
                    acc[i * parts + part] =
                        ge_x86_fours_dot(acc[i * parts + part], w + 64 * (tap * parts + part), input);
                }
            }
        }
    }
}

/* Computes one tile, whose first pixel is number `pixel` of a row; `count`, `parts` and `sweep` are constants. */
static inline GE_X86_INLINE void conv2d_sixteen_s8_x86_tile(const conv2d_sixteen_s8_x86_layer *s, int32_t pixel,
                                                            int32_t vector, int8_t *o, const int32_t count,
                                                            const int32_t parts, const int32_t sweep) {
    const int32_t pitch = s->pitch, columns = sweep ? 3 : s->kernel_w;
    const ge_x86_tap *w = s->weights + (ptrdiff_t)vector * s->kernel_h * columns * parts * 64;
    const ptrdiff_t at = (ptrdiff_t)pixel * pitch + vector / s->units * 16;
    ge_x86_fours acc[16];
    GE_X86_UNROLL
    for (int32_t i = 0; i < count * parts; i++) {
        acc[i] = ge_x86_fours_zero();
    }
    for (int32_t row = 0; row < s->kernel_h; row++) {
        const ge_x86_element *x = s->rows[row] + at;
        if (sweep) {
            conv2d_sixteen_s8_x86_sweep(acc, w, x, pitch, count, parts);
            w += 64 * 3 * parts;
        }
        for (int32_t column = 0; !sweep && column < columns; column++) {
            GE_X86_UNROLL
            for (int32_t i = 0; i < count; i++) {
                const ge_x86_sixteen input = ge_x86_sixteen_at(x + i * pitch);
                GE_X86_UNROLL
                for (int32_t part = 0; part < parts; part++) {
                    acc[i * parts + part] = ge_x86_fours_dot(acc[i * parts + part], w + 64 * part, input);
                }
            }
            x += s->step;
            w += 64 * parts;
        }
    }
    conv2d_sixteen_s8_x86_finish(s, acc, vector, o + (ptrdiff_t)pixel * s->out_c, count, parts);
}

/* Defines a function for each tile size, which computes an output row for one vector. */
#define CONV2D_SIXTEEN_S8_X86_TILE(count, parts)                                                                       \
    static GE_X86_FN void GE_X86_SIZED(conv2d_sixteen_s8_x86_tiles, count, parts)(                                     \
        const conv2d_sixteen_s8_x86_layer *s, int32_t pixels, int32_t vector, int32_t sweep, int8_t *o) {              \
        for (int32_t done = 0; done < pixels; done += count) {                                                         \
            const int32_t pixel = done + count <= pixels ? done : pixels - count;                                      \
            if (sweep) {                                                                                               \
                conv2d_sixteen_s8_x86_tile(s, pixel, vector, o, count, parts, 1);                                      \
            } else {                                                                                                   \
                conv2d_sixteen_s8_x86_tile(s, pixel, vector, o, count, parts, 0);                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
GE_X86_SIXTEEN_TILES(CONV2D_SIXTEEN_S8_X86_TILE)

/* Returns the number of pixels of the tile size that costs least for so many pixels: a tile costs its pixels plus
 * one. */
static GE_X86_FN int32_t conv2d_sixteen_s8_x86_count(int32_t pixels, int32_t parts) {
    int32_t best = 1, least = INT32_MAX;
#define CONV2D_SIXTEEN_S8_X86_TRY(count, of)                                                                           \
    if (of == parts && count <= pixels && (pixels + count - 1) / count * (count + 1) < least) {                        \
        best = count;                                                                                                  \
        least = (pixels + count - 1) / count * (count + 1);                                                            \
    }
    GE_X86_SIXTEEN_TILES(CONV2D_SIXTEEN_S8_X86_TRY)
    return best;
}

/* Computes all outputs of a row. */
static GE_X86_FN void conv2d_sixteen_s8_x86_row(const conv2d_sixteen_s8_x86_layer *s, int32_t pixels, int32_t vectors,
                                                int32_t sweep, int8_t *o) {
    const int32_t tile = 2 * conv2d_sixteen_s8_x86_count(pixels, s->parts) + s->parts - 1;
    for (int32_t vector = 0; vector < vectors; vector++) {
        switch (tile) {
#define CONV2D_SIXTEEN_S8_X86_CALL(count, parts)                                                                       \
    case 2 * count + parts - 1:                                                                                        \
        GE_X86_SIZED(conv2d_sixteen_s8_x86_tiles, count, parts)(s, pixels, vector, sweep, o);                          \
        break;
            GE_X86_SIXTEEN_TILES(CONV2D_SIXTEEN_S8_X86_CALL)
        default:
            break;
        }
    }
}

static GE_X86_FN void ge_conv2d_sixteen_s8_x86(const ge_conv2d_params *p, const ge_rows *x, const int8_t *weights,
                                               const int32_t *bias, const int32_t *multiplier, const float *scale,
                                               const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t window = (p->kernel_h - 1) * p->dilation_h + 1, group_in = p->in_c / p->groups;
    const int32_t columns = (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
    const int32_t row = columns * p->in_c;
    conv2d_sixteen_s8_x86_layer s = {0};
    s.rows = (const ge_x86_element **)scratch;
    s.kernel_h = p->kernel_h;
    s.kernel_w = p->kernel_w;
    s.step = p->dilation_w * p->in_c;
    s.pitch = p->stride_w * p->in_c;
    s.parts = group_in == 8 ? 2 : 1;
    s.place = p->out_c / p->groups * (4 * s.parts / group_in);
    s.units = s.place / (4 * s.parts);
    s.out_c = p->out_c;
    s.bias = bias;
    s.multiplier = multiplier;
    s.scale = scale;
    s.law = ge_x86_law_of(p->shift, p->out_zero_point, p->lo, p->hi);
    const int32_t vectors = (p->in_c + 15) / 16 * s.units, taps = vectors * p->kernel_h * p->kernel_w * s.parts * 64;
    const int32_t sweep = p->kernel_w == 3 && p->stride_w == 1 && p->dilation_w == 1;
    const uintptr_t behind = (uintptr_t)scratch + 63 + (uintptr_t)p->kernel_h * sizeof(void *);
    ge_x86_tap *const room = (ge_x86_tap *)(behind & ~(uintptr_t)63);
    ge_x86_element *const plane = (ge_x86_element *)((uintptr_t)room + GE_X86_TAPS_BYTES((uintptr_t)taps));
    s.weights = ge_x86_fours_taps(room, weights, taps);
    int32_t next = first_row * p->stride_h - p->pad_top, slot_of_next = 0, slot_of_top = 0;
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t top = y * p->stride_h - p->pad_top;
        for (; next < top + window; next++) {
            if (next >= top) {
                ge_x86_expand_input(p, x, next, columns, plane + slot_of_next * row);
            }
            slot_of_next = slot_of_next + 1 == window ? 0 : slot_of_next + 1;
        }
        for (int32_t tap = 0; tap < p->kernel_h; tap++) {
            s.rows[tap] = plane + (slot_of_top + tap * p->dilation_h) % window * row;
        }
        slot_of_top = (slot_of_top + p->stride_h) % window;
        conv2d_sixteen_s8_x86_row(&s, p->out_w, vectors, sweep, (int8_t *)ge_row(out, y));
    }
}
