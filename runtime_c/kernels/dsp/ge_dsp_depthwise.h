/* Code that the 3x3 depthwise kernels of Cortex-M4, M7 and M33 share: four channels at a time, pixels in pairs.
 *
 * A line is a row of the image, or a column where columns are longer (`down`). Three lines are kept, in slots that they
 * take in turn. A word holds two neighbours along the line of one channel: ring[pair][slot][channel]. So all offsets in
 * the inner loop are constant, and only the order of the weights rotates. Weights are kept as words (w0, w1) and (w1,
 * w2) for each tap row, and the first two rows again after the third, so that three rows in any rotation are
 * contiguous. */
#ifndef GE_DSP_DEPTHWISE_H
#define GE_DSP_DEPTHWISE_H

#include "ge.h"
#include "ge_params.h"

#define GE_DSP_RING_WORDS 12   /* of a pair: 3 slots x 4 channels */
#define GE_DSP_TAPS_WORDS 12   /* of a channel: bias, multiplier, 5 tap rows x 2 words */
#define GE_DSP_PACKED_WORDS 20 /* of four channels in flash: 4 x (bias, multiplier, 3 rows of w0 w1 w2 0) */

/* Lines run along one axis of the image; consecutive lines are adjacent along the other axis. All steps are in bytes. A
 * line of pairs consists of: padding, padding and an input, inputs, an input and padding, padding. */
typedef struct {
    int32_t down;      /* 1: lines are columns */
    int32_t length;    /* outputs of a line */
    int32_t origin;    /* input index of the line's first window; negative in padding */
    int32_t in_length; /* inputs of a line */
    int32_t in_step;   /* bytes from input to input, 0 where only ge_row knows */
    int32_t in_lines;  /* lines of the input */
    int32_t pairs;     /* words that hold a line */
    int32_t before;    /* words in padding at the beginning */
    int32_t head;      /* 1: a word follows of which one half is padding */
    int32_t inner;     /* words without padding after that */
    int32_t tail;      /* 1: a word follows of which one half is padding */
    uint32_t zero;     /* four times the zero point */
} ge_dsp_lines;

/* Returns the lines of output rows first..last-1. */
static inline ge_dsp_lines ge_dsp_lines_of(const ge_conv2d_params *p, const ge_rows *x, int32_t down, int32_t first,
                                           int32_t last) {
    ge_dsp_lines g;
    g.down = down;
    g.length = down ? last - first : p->out_w;
    g.origin = down ? first * p->stride_h - p->pad_top : -p->pad_left;
    g.in_length = down ? p->in_h : p->in_w;
    g.in_step = down ? (x->slots == NULL ? x->stride : 0) : p->in_c;
    g.in_lines = down ? p->in_w : p->in_h;
    g.pairs = ((g.length - 1) * (down ? p->stride_h : p->stride_w) + 4) / 2;
    g.zero = ((uint32_t)p->in_zero_point & 0xFFu) * 0x01010101u;
    const int32_t end = g.origin + 2 * g.pairs < g.in_length ? g.origin + 2 * g.pairs : g.in_length;
    g.before = g.origin < 0 ? -g.origin / 2 : 0; /* fewer than all: a window never lies entirely in padding */
    const int32_t begin = g.origin + 2 * g.before;
    g.head = begin == -1;
    const int32_t left = end - begin - 2 * g.head;
    g.inner = left > 0 ? left / 2 : 0;
    g.tail = left > 0 ? left % 2 : 0;
    return g;
}

/* Returns four channels of element i of a line, or the zero point. */
static inline uint32_t ge_dsp_element(const ge_conv2d_params *p, const ge_dsp_lines *g, const ge_rows *x, int32_t line,
                                      int32_t i, int32_t channel) {
    uint32_t word = g->zero;
    if (i >= 0 && i < g->in_length) {
        const int32_t iy = g->down ? i : line;
        const int32_t ix = g->down ? line : i;
        memcpy(&word, (const int8_t *)ge_row(x, iy) + ix * p->in_c + channel, 4);
    }
    return word;
}

/* clang-format off */

/* Makes the words of a pair from two elements a and b, the first at `first`; all three registers are overwritten. */
#define GE_DSP_PAIR(u, a, b, first, y1, y2, y3)                                                                        \
    "    pkhbt " u ", " a ", " b ", lsl #16\n"                                                                         \
    "    pkhtb " b ", " b ", " a ", asr #16\n"                                                                         \
    "    sxtb16 " a ", " u "\n"                                                                                        \
    "    sxtb16 " u ", " u ", ror #8\n"                                                                                \
    "    str.w " a ", " first "\n"                                                                                     \
    "    str.w " u ", [%[y], #" y1 "]\n"                                                                               \
    "    sxtb16 " a ", " b "\n"                                                                                        \
    "    sxtb16 " b ", " b ", ror #8\n"                                                                                \
    "    str.w " a ", [%[y], #" y2 "]\n"                                                                               \
    "    str.w " b ", [%[y], #" y3 "]\n"

/* Packs `pairs` pairs from x on, `step` bytes from element to element: 29 cycles for 16 values. */
static inline void ge_dsp_pairs(const int8_t *x, int32_t step, int32_t pairs, uint32_t *to) {
    const int32_t step3 = 3 * step;
    uint32_t a, b, c, d, u;
    __asm__ volatile(
        "    lsrs %[n], %[n], #1\n"
        "    sub.w %[y], %[y], #96\n"
        "    bcc 1f\n"
        "    ldr.w %[a], [%[x]]\n"
        "    ldr.w %[b], [%[x], %[step]]\n"
        "    add.w %[x], %[x], %[step], lsl #1\n"
        GE_DSP_PAIR("%[u]", "%[a]", "%[b]", "[%[y], #96]!", "4", "8", "12")
        "    sub.w %[y], %[y], #48\n"
        "1:\n"
        "    beq 3f\n"
        "    .balign 4\n"
        "2:\n"
        "    ldr.w %[a], [%[x]]\n"
        "    ldr.w %[b], [%[x], %[step]]\n"
        "    ldr.w %[c], [%[x], %[step], lsl #1]\n"
        "    ldr.w %[d], [%[x], %[step3]]\n"
        "    add.w %[x], %[x], %[step], lsl #2\n"
        "    subs %[n], %[n], #1\n"
        GE_DSP_PAIR("%[u]", "%[a]", "%[b]", "[%[y], #96]!", "4", "8", "12")
        GE_DSP_PAIR("%[u]", "%[c]", "%[d]", "[%[y], #48]", "52", "56", "60")
        "    bne 2b\n"
        "3:\n"
        : [x] "+&r"(x), [y] "+&r"(to), [n] "+&r"(pairs), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d),
          [u] "=&r"(u)
        : [step] "r"(step), [step3] "r"(step3)
        : "cc", "memory");
}

/* clang-format on */

/* Writes the words of two elements. */
static inline void ge_dsp_two(uint32_t a, uint32_t b, uint32_t *to) {
    uint32_t u;
    __asm__ volatile(GE_DSP_PAIR("%[u]", "%[a]", "%[b]", "[%[y]]", "4", "8", "12")
                     : [a] "+&r"(a), [b] "+&r"(b), [u] "=&r"(u)
                     : [y] "r"(to)
                     : "memory");
}

/* Writes padding: `count` times four words, `step` words apart. */
static inline void ge_dsp_fill(const ge_conv2d_params *p, int32_t count, int32_t step, uint32_t *to) {
    const uint32_t both = ((uint32_t)p->in_zero_point & 0xFFFFu) | (uint32_t)p->in_zero_point << 16;
    for (int32_t j = 0; j < count; j++) {
        to[0] = both;
        to[1] = both;
        to[2] = both;
        to[3] = both;
        to += step;
    }
}

/* Packs a line whose elements are equally spaced; pairs in padding are already there. */
static inline void ge_dsp_pack_even(const ge_dsp_lines *g, const int8_t *from, uint32_t *to) {
    uint32_t word;
    to += g->before * GE_DSP_RING_WORDS;
    if (g->head) {
        memcpy(&word, from, 4);
        ge_dsp_two(g->zero, word, to);
        from += g->in_step;
        to += GE_DSP_RING_WORDS;
    } else if (g->origin > 0) {
        from += g->origin * g->in_step;
    }
    if (g->inner > 0) {
        ge_dsp_pairs(from, g->in_step, g->inner, to);
    }
    if (g->tail) {
        memcpy(&word, from + 2 * g->inner * g->in_step, 4);
        ge_dsp_two(word, g->zero, to + g->inner * GE_DSP_RING_WORDS);
    }
}

/* Packs line `line` of the input, four channels from `channel` on, into its slot of the ring. */
static inline void ge_dsp_pack_line(const ge_conv2d_params *p, const ge_dsp_lines *g, const ge_rows *x, int32_t down,
                                    int32_t line, int32_t channel, uint32_t *to) {
    if (!down) {
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

/* Writes a tap row (w0, w2) and (w1, 0), times 2^up, as (w0, w1) and (w1, w2) to two places. */
static inline void ge_dsp_tap_pairs(uint32_t even, uint32_t odd, int32_t up, uint32_t *to, uint32_t *again) {
    uint32_t w;
    for (int32_t i = 0; i < up; i++) {
        __asm__("sadd16 %0, %0, %0" : "+r"(even));
        __asm__("sadd16 %0, %0, %0" : "+r"(odd));
    }
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(w) : "r"(even), "r"(odd));
    __asm__("pkhbt %0, %0, %1" : "+r"(odd) : "r"(even));
    to[0] = w;
    to[1] = odd;
    again[0] = w;
    again[1] = odd;
}

/* Does the same for a row of bytes w0 w1 w2 0. */
static inline void ge_dsp_tap_row(uint32_t w, int32_t up, uint32_t *to, uint32_t *again) {
    uint32_t even, odd;
    __asm__("sxtb16 %0, %1" : "=r"(even) : "r"(w));
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(w));
    ge_dsp_tap_pairs(even, odd, up, to, again);
}

/* Unpacks four channels' weights for the loops, times 2^up: bias, multiplier, `more` words of the law, tap rows. */
static inline void ge_dsp_unpack_taps(const int32_t *packed, int32_t up, int32_t more, uint32_t *taps) {
    for (int32_t c = 0; c < 4; c++) {
        *taps++ = (uint32_t)packed[0] << up;
        *taps++ = (uint32_t)packed[1];
        for (int32_t i = 0; i < more; i++) {
            *taps++ = (uint32_t)packed[5 + i];
        }
        ge_dsp_tap_row((uint32_t)packed[2], up, taps, taps + 6);
        ge_dsp_tap_row((uint32_t)packed[3], up, taps + 2, taps + 8);
        ge_dsp_tap_row((uint32_t)packed[4], up, taps + 4, taps + 4);
        packed += 5 + more;
        taps += GE_DSP_TAPS_WORDS - 2;
    }
}

/* Does the same from words (w0, w2) and (w1, 0) for each tap row, for the default law. */
static inline void ge_dsp_unpack_wide_taps(const int32_t *packed, int32_t up, uint32_t *taps) {
    for (int32_t c = 0; c < 4; c++) {
        *taps++ = (uint32_t)packed[0] << up;
        *taps++ = (uint32_t)packed[1];
        ge_dsp_tap_pairs((uint32_t)packed[2], (uint32_t)packed[3], up, taps, taps + 6);
        ge_dsp_tap_pairs((uint32_t)packed[4], (uint32_t)packed[5], up, taps + 2, taps + 8);
        ge_dsp_tap_pairs((uint32_t)packed[6], (uint32_t)packed[7], up, taps + 4, taps + 4);
        packed += 8;
        taps += GE_DSP_TAPS_WORDS - 2;
    }
}

#endif
