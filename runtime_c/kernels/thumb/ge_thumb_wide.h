/* int16 layers with 32-bit sums and plain weights, for the cores without DSP instructions.
 *
 * A convolution computes six pixels together. It converts their inputs to words once for all channels, GE_WIDE_CHUNK
 * inputs at a time; the core's wide.h multiplies each weight with six of these words. Sums are taken modulo 2^32, so
 * only the last one must fit into 32 bits.
 */
#ifndef GE_THUMB_WIDE_H
#define GE_THUMB_WIDE_H

#include "ge.h"
#include "ge_params.h"
#include "wide.h"

#define GE_WIDE_PIXELS 6
#define GE_WIDE_CHUNK 64

/* The state of a convolution. It lies in scratch, because the stack is short; the words that the block reads come
 * directly before it. */
typedef struct {
    int32_t words[GE_WIDE_CHUNK * GE_WIDE_PIXELS];
    ge_wide_block block;
    int16_t *outs[GE_WIDE_PIXELS];
    ge_wide_outputs outputs;
    int32_t top[GE_WIDE_PIXELS], left[GE_WIDE_PIXELS];
    int32_t pixels;   /* used; they are the last ones of `outs` */
    int32_t bytes;    /* in a weight */
    int32_t depth;    /* input channels */
    int32_t taps;     /* in a run: a row of the window if its inputs are contiguous, else 1 */
    int32_t inputs;   /* in a window */
    int32_t channels; /* output channels of a group */
    int32_t *sums;    /* six for each channel */
    ge_rows in;       /* begins at the first channel of the group */
} ge_wide_conv;

static inline void ge_wide_law(ge_wide_outputs *o, int32_t zero_point, int32_t lo, int32_t hi) {
    o->zero_point = zero_point;
    o->lo = lo;
    o->hi = hi;
}

static ge_wide_conv *ge_wide_open(const ge_conv2d_s16_params *p, int32_t bytes, void *scratch) {
    ge_wide_conv *const s = (ge_wide_conv *)scratch;
    s->bytes = bytes;
    s->depth = p->in_c / p->groups;
    s->inputs = p->kernel_h * p->kernel_w * s->depth;
    s->channels = p->out_c / p->groups;
    s->taps = p->dilation_w == 1 && p->groups == 1 ? p->kernel_w : 1;
    s->sums = (int32_t *)(void *)(s + 1);
    ge_wide_law(&s->outputs, p->out_zero_point, p->lo, p->hi);
    return s;
}

/* Takes up to six pixels from (*y, *ox) on and moves that position past them. */
static GE_NOINLINE void ge_wide_next(ge_wide_conv *s, const ge_conv2d_s16_params *p, const ge_rows *out, int32_t *y,
                                     int32_t *ox, int32_t last_row) {
    int16_t **to = s->outs;
    for (s->pixels = 0; s->pixels < GE_WIDE_PIXELS && *y < last_row; s->pixels++) {
        s->top[s->pixels] = *y * p->stride_h - p->pad_top;
        s->left[s->pixels] = *ox * p->stride_w - p->pad_left;
        *to++ = (int16_t *)ge_row(out, *y) + *ox * p->out_c;
        *ox += 1;
        if (*ox == p->out_w) {
            *ox = 0;
            *y += 1;
        }
    }
    s->outputs.outs = s->outs + GE_WIDE_PIXELS - s->pixels;
    memmove(s->outs + GE_WIDE_PIXELS - s->pixels, s->outs, (size_t)s->pixels * sizeof *s->outs);
}

/* Returns how many of `count` taps, the first at column `ix`, lie left of column `edge`. */
static inline int32_t ge_wide_reach(int32_t edge, int32_t ix, int32_t count) {
    const int32_t taps = edge - ix;
    return taps < 0 ? 0 : (taps < count ? taps : count);
}

/* Writes `count` inputs of one pixel. */
static inline int32_t *ge_wide_put(int32_t *to, const int16_t *from, int32_t count) {
    for (int32_t *const end = to + count * GE_WIDE_PIXELS; to < end; to += GE_WIDE_PIXELS) {
        *to = *from++;
    }
    return to;
}

/* Writes `count` inputs of one pixel that lie in the padding. */
static inline int32_t *ge_wide_pad(int32_t *to, int32_t padding, int32_t count) {
    for (int32_t *const end = to + count * GE_WIDE_PIXELS; to < end; to += GE_WIDE_PIXELS) {
        *to = padding;
    }
    return to;
}

/* Writes inputs first..first+count-1 of the window of pixel `pixel`, run by run: padding, inputs, padding. */
static GE_NOINLINE void ge_wide_take(ge_wide_conv *s, const ge_conv2d_s16_params *p, int32_t pixel, int32_t first,
                                     int32_t count) {
    const int32_t length = s->taps * s->depth;
    int32_t *to = s->words + (GE_WIDE_CHUNK - count) * GE_WIDE_PIXELS + pixel;
    int32_t kx = first / length * s->taps;
    int32_t at = first - kx * s->depth;
    int32_t ky = kx / p->kernel_w;
    for (kx -= ky * p->kernel_w; count > 0; at = 0) {
        const int32_t iy = s->top[pixel] + ky * p->dilation_h;
        const int32_t ix = s->left[pixel] + kx * p->dilation_w;
        const int32_t there = iy >= 0 && iy < p->in_h;
        const int32_t end = length - at < count ? length : at + count;
        int32_t left = there ? ge_wide_reach(0, ix, s->taps) * s->depth : length;
        int32_t right = there ? ge_wide_reach(p->in_w, ix, s->taps) * s->depth : length;
        left = left < at ? at : (left < end ? left : end);
        right = right < left ? left : (right < end ? right : end);
        count -= end - at;
        to = ge_wide_pad(to, p->in_zero_point, left - at);
        if (right > left) {
            to = ge_wide_put(to, (const int16_t *)ge_row(&s->in, iy) + ix * p->in_c + left, right - left);
        }
        to = ge_wide_pad(to, p->in_zero_point, end - right);
        kx += s->taps;
        if (kx >= p->kernel_w) {
            kx = 0;
            ky++;
        }
    }
}

/* Computes the sums of all channels of the pixels; they begin with the biases. weights: those of the group. */
static inline void ge_wide_sums(ge_wide_conv *s, const ge_conv2d_s16_params *p, const int8_t *weights,
                                const int32_t *bias) {
    for (int32_t first = 0; first < s->inputs; first += GE_WIDE_CHUNK) {
        const int32_t count = s->inputs - first < GE_WIDE_CHUNK ? s->inputs - first : GE_WIDE_CHUNK;
        for (int32_t i = 0; i < s->pixels; i++) {
            ge_wide_take(s, p, i, first, count);
        }
        s->block.x = s->words + (GE_WIDE_CHUNK - count) * GE_WIDE_PIXELS;
        s->block.weights = weights + (first + count) * s->bytes;
        s->block.pitch = s->inputs * s->bytes;
        s->block.left = -count * s->bytes;
        s->block.sums = s->sums;
        s->block.channels = s->channels;
        s->block.bias = first == 0 ? bias : NULL;
        if (s->bytes == 1) {
            ge_wide_bytes(&s->block);
        } else {
            ge_wide_halves(&s->block);
        }
    }
}

/* Computes output rows first..last-1. weights: [O, kh, kw, C/groups], each of `bytes` bytes. scratch: a ge_wide_conv,
 * then six sums for each channel of a group. */
static inline void ge_wide_conv2d(const ge_conv2d_s16_params *p, const ge_rows *x, const int8_t *weights, int32_t bytes,
                                  const int32_t *bias, const int32_t *multiplier, const ge_rows *out, int32_t first,
                                  int32_t last, void *scratch) {
    ge_wide_conv *const s = ge_wide_open(p, bytes, scratch);
    s->in = *x;
    for (int32_t oc = 0; oc < p->out_c; oc += s->channels) {
        for (int32_t y = first, ox = 0; y < last;) {
            ge_wide_next(s, p, out, &y, &ox, last);
            ge_wide_sums(s, p, weights + oc * s->inputs * bytes, bias + oc);
            s->outputs.sums = s->sums;
            s->outputs.skip = (GE_WIDE_PIXELS - s->pixels) * (int32_t)sizeof *s->sums;
            s->outputs.multiplier = multiplier + oc;
            s->outputs.offset = oc * (int32_t)sizeof(int16_t);
            s->outputs.channels = s->channels;
            ge_wide_finish(&s->outputs);
        }
        s->in.data = (int16_t *)s->in.data + s->depth;
    }
}

#endif
