/* Convolution of int8 [H, W, C] with int8 weights that take a byte each in flash, three sums in two words, for
 * Cortex-M0, M0+, M1 and M3.
 *
 * The kernel copies as many windows as fit into CONV2D_WIDENED_S8_THUMB_BYTES. Then it widens the groups of nine
 * channels into words, one group after the other, and multiplies each with all of these windows (ge_threes_widen.h). It
 * copies windows column by column, [kw][kh][C], so that neighbours share columns. threes.h explains how words are
 * multiplied.
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"
#include "ge_threes_widen.h"
#include "ge_threes_window.h"

/* The largest number of pixels that are multiplied with one group before the next is widened, and of bytes that their
 * windows take. */
#define CONV2D_WIDENED_S8_THUMB_PIXELS 32
#define CONV2D_WIDENED_S8_THUMB_BYTES 4096

/* The kernel's state, which begins the scratch memory; the words of one group and the windows follow it. */
typedef struct {
    ge_threes_state state;
    union {
        ge_threes_widening widening;
        uint32_t words[10];
    } group;
    union {
        struct {
            const int8_t *window;
            int8_t *out;
        } at;
        uint32_t words[2];
    } pixels[CONV2D_WIDENED_S8_THUMB_PIXELS];
} conv2d_widened_s8_thumb_state;

/* Where the windows of pixels in one row lie in scratch, in bytes. */
typedef struct {
    int32_t column;
    int32_t step;  /* from one window to the next */
    int32_t extra; /* how much longer the first window is */
    int32_t room;  /* for all windows together */
} conv2d_widened_s8_thumb_layout;

static inline conv2d_widened_s8_thumb_layout conv2d_widened_s8_thumb_layout_of(const ge_conv2d_params *p,
                                                                               int32_t inputs) {
    conv2d_widened_s8_thumb_layout l;
    l.column = p->kernel_h * p->in_c;
    l.step = l.column * (p->dilation_w == 1 && p->stride_w < p->kernel_w ? p->stride_w : p->kernel_w);
    l.extra = inputs - l.step;
    l.room = inputs > CONV2D_WIDENED_S8_THUMB_BYTES ? inputs : CONV2D_WIDENED_S8_THUMB_BYTES;
    return l;
}

/* Copies the columns of `count` windows from one row of the input, beginning at column `left`. row: NULL in the
 * padding. */
static GE_NOINLINE void conv2d_widened_s8_thumb_row(const ge_conv2d_params *p, const conv2d_widened_s8_thumb_layout *l,
                                                    const int8_t *row, int32_t left, int32_t count, int8_t *to) {
    int8_t *const end = to + count * l->step + p->kernel_w * l->column - l->step;
    for (int32_t kx = 0; to < end; left += p->stride_w) {
        for (; kx < p->kernel_w; kx++) {
            const int32_t ix = left + kx * p->dilation_w;
            if (row != NULL && ix >= 0 && ix < p->in_w) {
                ge_threes_take(to, row + ix * p->in_c, p->in_c);
            } else {
                ge_threes_fill(to, p->in_zero_point, p->in_c);
            }
            to += l->column;
        }
        kx = l->step < p->kernel_w * l->column ? p->kernel_w - p->stride_w : 0;
    }
}

/* Copies as many windows as fit to `to`, beginning at pixel (*y, *ox), and moves that position past them. Returns their
 * number. */
static GE_NOINLINE int32_t conv2d_widened_s8_thumb_windows(const ge_conv2d_params *p, const ge_rows *x,
                                                           const ge_rows *out, int32_t last_row,
                                                           conv2d_widened_s8_thumb_state *s, int8_t *to, int32_t *y,
                                                           int32_t *ox) {
    const conv2d_widened_s8_thumb_layout l = conv2d_widened_s8_thumb_layout_of(p, s->state.block.inputs);
    int32_t room = l.room;
    int32_t count = 0;
    while (*y < last_row && count < CONV2D_WIDENED_S8_THUMB_PIXELS && room >= l.step + l.extra) {
        const int32_t first = count;
        int8_t *o = (int8_t *)ge_row(out, *y) + *ox * p->out_c;
        const int8_t *window = to;
        room -= l.extra;
        for (; count < CONV2D_WIDENED_S8_THUMB_PIXELS && room >= l.step && *ox + count - first < p->out_w; count++) {
            s->pixels[count].at.window = window;
            s->pixels[count].at.out = o;
            window += l.step;
            o += p->out_c;
            room -= l.step;
        }
        for (int32_t ky = 0; ky < p->kernel_h; ky++) {
            const int32_t iy = *y * p->stride_h - p->pad_top + ky * p->dilation_h;
            const int8_t *const row = iy >= 0 && iy < p->in_h ? (const int8_t *)ge_row(x, iy) : NULL;
            conv2d_widened_s8_thumb_row(p, &l, row, *ox * p->stride_w - p->pad_left, count - first, to + ky * p->in_c);
        }
        to += (count - first) * l.step + l.extra;
        room -= (int32_t)(-(uintptr_t)to & 3u);
        to += -(uintptr_t)to & 3u;
        *ox += count - first;
        if (*ox == p->out_w) {
            *ox = 0;
            *y += 1;
        }
    }
    return count;
}

/* Computes the outputs of the group that the block holds, for all pixels. spared: the number of channels in the last
 * group if it has fewer channels than sums, else 0. */
static void conv2d_widened_s8_thumb_outputs(conv2d_widened_s8_thumb_state *s, int32_t count, int32_t first,
                                            int32_t spared) {
    ge_threes_block *const block = &s->state.block;
    for (int32_t i = 0; i < count; i++) {
        int8_t *const o = s->pixels[i].at.out + first;
        ge_threes_inputs(block, s->pixels[i].at.window);
        block->out = o;
        block->tail_out = spared > 0 ? block->spare : o;
        ge_threes_groups(block);
        for (int32_t c = 0; c < spared; c++) {
            o[c] = block->spare[c];
        }
    }
}

static void ge_conv2d_widened_s8_thumb(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *words,
                                       const int8_t *weights, const ge_rows *out, int32_t first_row, int32_t last_row,
                                       void *scratch) {
    conv2d_widened_s8_thumb_state *const s = (conv2d_widened_s8_thumb_state *)scratch;
    ge_threes_block *const block = &s->state.block;
    ge_threes_widening *const widening = &s->group.widening;
    const uint32_t chunks = ge_threes_begin(block, words, p->out_c, p->lo, p->hi);
    const uint32_t *const table = block->stream;
    const int32_t tail = block->tail;
    uint32_t *const group = (uint32_t *)(void *)(s + 1);
    const uint32_t wide = p->out_c < 9 ? (uint32_t)tail : 6;
    const uint32_t own =
        wide * ((uint32_t)block->inputs + GE_THREES_STARTS * chunks) + GE_THREES_LAW * (wide / 2 * 3 + wide % 2);
    int8_t *const windows = (int8_t *)(group + own);
    for (int32_t y = first_row, ox = 0; y < last_row;) {
        widening->from = weights;
        widening->table = table;
        const int32_t count = conv2d_widened_s8_thumb_windows(p, x, out, last_row, s, windows, &y, &ox);
        for (int32_t first = 0; first < p->out_c; first += 9) {
            const int32_t nine = first < block->before;
            widening->to = group;
            ge_threes_group(widening, block, words, nine ? 6 : tail);
            block->stream = group;
            block->nines = nine ? widening->to : group;
            block->tail = nine ? 0 : tail;
            conv2d_widened_s8_thumb_outputs(s, count, first, nine ? 0 : block->spared);
        }
    }
    for (int32_t y = first_row; y < last_row; y++) {
        ge_threes_clamp(p->lo, p->hi, (int8_t *)ge_row(out, y), p->out_w * p->out_c);
    }
}
