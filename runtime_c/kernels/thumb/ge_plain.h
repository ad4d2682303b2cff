/* Sums of a convolution with plain weights, [O, kh, kw, C/groups], for the cores without DSP instructions.
 *
 * Three pixels are computed together. Their inputs are packed into pairs of words once for all channels (see the core's
 * plain.h), GE_PLAIN_CHUNK inputs at a time, because a sum of more products may not fit.
 */
#ifndef GE_PLAIN_H
#define GE_PLAIN_H

#include "ge.h"
#include "ge_params.h"
#include "ge_window.h"
#include "plain.h"

/* The number of inputs whose products with three pixels fit into two words whatever the weights are: 128 * 128 times
 * this number is below 2^20. */
#define GE_PLAIN_CHUNK 48

/* Three consecutive pixels of the output: the top left corners of their windows, and where their outputs go; NULL past
 * the last row. */
typedef struct {
    int32_t top[3];
    int32_t left[3];
    int8_t *out[3];
} ge_plain_pixels;

/* The state of one group of channels. It lies in scratch, because the stack is short. */
typedef struct {
    ge_plain_block block;
    ge_plain_pixels at;
    int32_t *sums;         /* three for each channel; room for an even number of channels */
    uint32_t *words;       /* the words A and B of each input in a chunk */
    int8_t *padding;       /* one tap of zero points */
    const int8_t *weights; /* of the first channel, from the first input that was not multiplied yet */
    int32_t depth;         /* input channels */
    int32_t inputs;        /* in a window */
    int32_t channels;      /* output channels */
    int32_t filled;        /* how many inputs `words` holds */
} ge_plain;

static ge_plain *ge_plain_open(const ge_conv2d_params *p, void *scratch) {
    ge_plain *const s = (ge_plain *)scratch;
    s->depth = p->in_c / p->groups;
    s->inputs = p->kernel_h * p->kernel_w * s->depth;
    s->channels = p->out_c / p->groups;
    s->filled = 0;
    s->weights = NULL;
    s->sums = (int32_t *)(void *)(s + 1);
    s->words = (uint32_t *)(s->sums + (s->channels + 1) / 2 * 6);
    s->padding = (int8_t *)(s->words + 2 * (s->inputs < GE_PLAIN_CHUNK ? s->inputs : GE_PLAIN_CHUNK));
    memset(s->padding, p->in_zero_point, (size_t)s->depth);
    return s;
}

/* Takes the three pixels from (*y, *ox) on and moves that position past them. What is read past the last row is not
 * used. */
static void ge_plain_next(ge_plain *s, const ge_conv2d_params *p, const ge_rows *out, int32_t *y, int32_t *ox,
                          int32_t last_row) {
    for (int32_t i = 0; i < 3; i++) {
        s->at.top[i] = *y * p->stride_h - p->pad_top;
        s->at.left[i] = *ox * p->stride_w - p->pad_left;
        s->at.out[i] = *y < last_row ? (int8_t *)ge_row(out, *y) + *ox * p->out_c : NULL;
        *ox += 1;
        if (*ox == p->out_w) {
            *ox = 0;
            *y += 1;
        }
    }
}

/* Multiplies the inputs in `words` with the weights of all channels. */
static GE_NOINLINE void ge_plain_multiply(ge_plain *s) {
    s->weights += s->filled;
    s->block.x = s->words;
    s->block.weights = s->weights;
    s->block.pitch = s->inputs;
    s->block.left = -s->filled;
    s->block.sums = s->sums;
    s->block.pairs = s->channels / 2;
    if (s->block.pairs > 0) {
        ge_plain_pairs(&s->block);
    }
    if (s->channels % 2 != 0) {
        s->block.pitch = 0;
        s->block.pairs = 1;
        ge_plain_pairs(&s->block);
    }
    s->filled = 0;
}

/* Packs one tap of three pixels into `words`. */
static GE_NOINLINE void ge_plain_take(ge_plain *s, const int8_t *a, const int8_t *b, const int8_t *c) {
    for (int32_t left = s->depth; left > 0;) {
        const int32_t room = GE_PLAIN_CHUNK - s->filled;
        const int32_t count = left < room ? left : room;
        uint32_t *to = s->words + 2 * s->filled;
        const uint32_t *const end = to + 2 * count;
        while (to < end) {
            const uint32_t third = (uint32_t)*c++ << 10;
            *to++ = (uint32_t)*a++ + (third << 11);
            *to++ = (uint32_t)*b++ + third;
        }
        left -= count;
        s->filled += count;
        if (s->filled == GE_PLAIN_CHUNK) {
            ge_plain_multiply(s);
        }
    }
}

/* Computes the sums of the three pixels, without bias, in s->sums. weights: those of the group; x: begins at its first
 * channel. */
static void ge_plain_sums(ge_plain *s, const ge_conv2d_params *p, const ge_rows *x, const int8_t *weights) {
    const int32_t chunks = (s->inputs + GE_PLAIN_CHUNK - 1) / GE_PLAIN_CHUNK;
    s->weights = weights;
    for (int32_t *sum = s->sums; sum < (int32_t *)(void *)s->words; sum++) {
        *sum = -chunks * GE_PLAIN_EXCESS;
    }
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int8_t *rows[3];
        for (int32_t i = 0; i < 3; i++) {
            rows[i] = ge_window_row(p, x, s->at.top[i] + ky * p->dilation_h);
        }
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int8_t *taps[3];
            for (int32_t i = 0; i < 3; i++) {
                taps[i] = ge_window_tap(p, rows[i], s->at.left[i] + kx * p->dilation_w, s->padding);
            }
            ge_plain_take(s, taps[0], taps[1], taps[2]);
        }
    }
    if (s->filled > 0) {
        ge_plain_multiply(s);
    }
}

#endif
