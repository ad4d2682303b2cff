/* What the 3x3 depthwise kernels of Cortex-M4, M7 and M33 share: four channels at a time, pixels in pairs.
 *
 * A line is a row of the image, or a column where columns are longer (`down`). Three lines are kept, in slots: line n of
 * the padded image is in slot n % 3. A word holds two neighbours along the line of one channel:
 * ring[pair][slot][channel]. So the inner loop finds everything at constant offsets; what turns is the order of the
 * weights. Weights are kept as words (w0, w1) and (w1, w2) for each tap row, the first two rows a second time behind the
 * third, so that three rows in any rotation follow each other. */
#ifndef GE_DSP_DEPTHWISE_H
#define GE_DSP_DEPTHWISE_H

#include "ge.h"
#include "ge_params.h"

#define GE_DSP_RING_WORDS 12   /* of a pair: 3 slots x 4 channels */
#define GE_DSP_TAPS_WORDS 12   /* of a channel: bias, multiplier, 5 tap rows x 2 words */
#define GE_DSP_PACKED_WORDS 20 /* of four channels in flash: 4 x (bias, multiplier, 3 rows of w0 w1 w2 0) */

/* Lines run along one axis of the image and follow each other along the other. All steps are in bytes. */
typedef struct {
    int32_t down;       /* 1: lines are columns */
    int32_t length;     /* outputs of a line */
    int32_t origin;     /* input index of the line's first window: below 0 in padding */
    int32_t in_length;  /* inputs of a line */
    int32_t in_step;    /* from input to input, 0 where only ge_row knows */
    int32_t across_pad; /* lines of padding before the first */
    int32_t in_lines;   /* lines of the input */
    int32_t pairs;      /* words that hold a line */
    int32_t zero;       /* four times the zero point */
} ge_dsp_lines;

/* The lines of output rows first..last-1. */
static inline ge_dsp_lines ge_dsp_lines_of(const ge_conv2d_params *p, const ge_rows *x, int32_t down, int32_t first,
                                           int32_t last) {
    ge_dsp_lines g;
    g.down = down;
    g.length = down ? last - first : p->out_w;
    g.origin = down ? first * p->stride_h - p->pad_top : -p->pad_left;
    g.in_length = down ? p->in_h : p->in_w;
    g.in_step = down ? (x->slots == NULL ? x->stride : 0) : p->in_c;
    g.across_pad = down ? p->pad_left : p->pad_top;
    g.in_lines = down ? p->in_w : p->in_h;
    g.pairs = ((g.length - 1) * (down ? p->stride_h : p->stride_w) + 4) / 2;
    g.zero = (p->in_zero_point & 0xFF) * 0x01010101;
    return g;
}

/* Four channels of element i of a line, or the zero point. */
static inline uint32_t ge_dsp_element(const ge_conv2d_params *p, const ge_dsp_lines *g, const ge_rows *x, int32_t line,
                                      int32_t i, int32_t channel) {
    uint32_t word = (uint32_t)g->zero;
    if (i >= 0 && i < g->in_length) {
        const int32_t iy = g->down ? i : line;
        const int32_t ix = g->down ? line : i;
        memcpy(&word, (const int8_t *)ge_row(x, iy) + ix * p->in_c + channel, 4);
    }
    return word;
}

/* `pairs` pairs from x on, `step` bytes from element to element: 20 cycles for 8 values. */
static inline void ge_dsp_pairs(const int8_t *x, int32_t step, int32_t pairs, uint32_t *to) {
    uint32_t a, b, s, t, u;
    __asm__ volatile("    .balign 4\n"
                     "1:\n"
                     "    ldr.w %[a], [%[x]]\n"
                     "    ldr.w %[b], [%[x], %[step]]\n"
                     "    add.w %[x], %[x], %[step], lsl #1\n"
                     "    subs %[n], %[n], #1\n"
                     "    sxtb16 %[s], %[a]\n" /* channels 0 and 2 of the one */
                     "    sxtb16 %[t], %[b]\n"
                     "    sxtb16 %[a], %[a], ror #8\n" /* 1 and 3 */
                     "    sxtb16 %[b], %[b], ror #8\n"
                     "    pkhbt %[u], %[s], %[t], lsl #16\n"
                     "    pkhtb %[t], %[t], %[s], asr #16\n"
                     "    str.w %[u], [%[y]]\n"
                     "    str.w %[t], [%[y], #8]\n"
                     "    pkhbt %[u], %[a], %[b], lsl #16\n"
                     "    pkhtb %[b], %[b], %[a], asr #16\n"
                     "    str.w %[u], [%[y], #4]\n"
                     "    str.w %[b], [%[y], #12]\n"
                     "    add.w %[y], %[y], #48\n"
                     "    bne 1b\n"
                     : [x] "+&r"(x), [y] "+&r"(to), [n] "+&r"(pairs), [a] "=&r"(a), [b] "=&r"(b), [s] "=&r"(s),
                       [t] "=&r"(t), [u] "=&r"(u)
                     : [step] "r"(step)
                     : "cc", "memory");
}

/* A line of padding. */
static inline void ge_dsp_fill_line(const ge_conv2d_params *p, int32_t pairs, uint32_t *to) {
    const uint32_t both = ((uint32_t)p->in_zero_point & 0xFFFFu) | (uint32_t)p->in_zero_point << 16;
    for (int32_t j = 0; j < pairs; j++) {
        to[0] = both;
        to[1] = both;
        to[2] = both;
        to[3] = both;
        to += GE_DSP_RING_WORDS;
    }
}

/* Element i of a line that begins at `from`, or the zero point. */
static inline uint32_t ge_dsp_element_at(const ge_dsp_lines *g, const int8_t *from, int32_t i) {
    uint32_t word = (uint32_t)g->zero;
    if (i >= 0 && i < g->in_length) {
        memcpy(&word, from + i * g->in_step, 4);
    }
    return word;
}

/* The words of two elements. */
static inline void ge_dsp_two(uint32_t a, uint32_t b, uint32_t *to) {
    const uint32_t two[2] = {a, b};
    ge_dsp_pairs((const int8_t *)two, 4, 1, to);
}

/* A line whose elements lie at equal distances. */
static inline void ge_dsp_pack_even(const ge_dsp_lines *g, const int8_t *from, uint32_t *to) {
    int32_t i = g->origin;
    const int32_t end = i + 2 * g->pairs;
    for (; i < 0 && i < end; i += 2) {
        ge_dsp_two(ge_dsp_element_at(g, from, i), ge_dsp_element_at(g, from, i + 1), to);
        to += GE_DSP_RING_WORDS;
    }
    const int32_t last = end < g->in_length ? end : g->in_length;
    const int32_t pairs = (last - i) / 2;
    if (pairs > 0) {
        ge_dsp_pairs(from + i * g->in_step, g->in_step, pairs, to);
        to += pairs * GE_DSP_RING_WORDS;
        i += 2 * pairs;
    }
    for (; i < end; i += 2) {
        ge_dsp_two(ge_dsp_element_at(g, from, i), ge_dsp_element_at(g, from, i + 1), to);
        to += GE_DSP_RING_WORDS;
    }
}

/* Line `line` of the input, four channels from `channel` on, into its slot. */
static inline void ge_dsp_pack_line(const ge_conv2d_params *p, const ge_dsp_lines *g, const ge_rows *x, int32_t line,
                                    int32_t channel, uint32_t *ring) {
    uint32_t *to = ring + (line + g->across_pad) % 3 * 4;
    if (line < 0 || line >= g->in_lines) {
        ge_dsp_fill_line(p, g->pairs, to);
    } else if (!g->down) {
        ge_dsp_pack_even(g, (const int8_t *)ge_row(x, line) + channel, to);
    } else if (g->in_step != 0) {
        ge_dsp_pack_even(g, (const int8_t *)x->data + line * p->in_c + channel, to);
    } else {
        for (int32_t j = 0; j < g->pairs; j++) {
            const int32_t i = g->origin + 2 * j;
            ge_dsp_two(ge_dsp_element(p, g, x, line, i, channel), ge_dsp_element(p, g, x, line, i + 1, channel), to);
            to += GE_DSP_RING_WORDS;
        }
    }
}

/* Four channels' weights as the loops read them, times 2^up; `more` words behind those of each channel. */
static inline void ge_dsp_unpack_taps(const int32_t *packed, int32_t up, int32_t more, uint32_t *taps) {
    for (int32_t c = 0; c < 4; c++) {
        taps[0] = (uint32_t)packed[0] << up;
        taps[1] = (uint32_t)packed[1];
        for (int32_t row = 0; row < 3; row++) {
            const uint32_t w = (uint32_t)packed[2 + row];
            const uint32_t w0 = (uint32_t)(int32_t)(int8_t)w << up & 0xFFFFu;
            const uint32_t w1 = (uint32_t)(int32_t)(int8_t)(w >> 8) << up & 0xFFFFu;
            const uint32_t w2 = (uint32_t)(int32_t)(int8_t)(w >> 16) << up & 0xFFFFu;
            taps[2 + 2 * row] = w0 | w1 << 16;
            taps[3 + 2 * row] = w1 | w2 << 16;
        }
        for (int32_t i = 0; i < 4; i++) {
            taps[8 + i] = taps[2 + i];
        }
        for (int32_t i = 0; i < more; i++) {
            taps[GE_DSP_TAPS_WORDS + i] = (uint32_t)packed[5 + i];
        }
        packed += 5 + more;
        taps += GE_DSP_TAPS_WORDS + more;
    }
}

#endif
