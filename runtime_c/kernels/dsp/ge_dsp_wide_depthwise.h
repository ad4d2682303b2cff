/* 3x3 depthwise convolution, stride 1, of int16 for Cortex-M4, M7 and M33: four channels at a time, pixels in pairs.
 *
 * Lines are rows, or columns where these are longer. A word of the ring holds two neighbours along a line of one
 * channel: ring[pair][slot][channel], where three lines lie in slots that they take in turn. A channel has a block of
 * words: (w0, w1) and (w1, w2) for each of three lines, the first two lines again, so that three consecutive ones fit
 * any rotation of the slots, the bias and the multiplier.
 *
 * r0 pixels, r1 out, r2-r7 weights, r8 r9 two outputs, r10 r11 the next two, r12 lr words. Every word is loaded once:
 * it completes two outputs and starts the next two. Cost: 28 cycles for 2 outputs, 5 per iteration of two such steps,
 * 75 per channel of a line; 3 per input that is packed. */
#ifndef GE_DSP_WIDE_DEPTHWISE_H
#define GE_DSP_WIDE_DEPTHWISE_H

#include "ge.h"
#include "ge_dsp_wide.h"
#include "ge_dsp_wide_window.h"
#include "ge_isa_dsp_frame.h"
#include "ge_params.h"

#pragma GCC diagnostic ignored "-Woverlength-strings"

#define GE_DSP_WIDE_RING 12  /* words of a pair: 3 slots x 4 channels */
#define GE_DSP_WIDE_BLOCK 13 /* words of a channel: 5 lines x 2, bias, multiplier, and the upper word of the bias */

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const uint32_t *x;
    const uint32_t *taps;  /* of the first channel, at the line that lies in slot 0 */
    const uint32_t *block; /* of the first channel */
    int32_t zero_point;
    int16_t *out;
    int32_t step;  /* bytes from output to output */
    int32_t pairs; /* of outputs */
    int32_t rest;  /* 1: one more output follows */
    int32_t law;   /* 0: the zero point is 0; 1: it is 0 and outputs saturate to 0..32767; 2: neither */
    int32_t channels;
} ge_dsp_wide_line_job;

/* Computes the channels of one line. */
typedef void ge_dsp_wide_line_of(const ge_dsp_wide_line_job *job);

/* clang-format off */

/* One word of pixels: completes e and o; starts ne and no. */
#define GE_DSP_WIDE_WORD(x, w01, w12, e, o, ne, no, start) \
    "    smlabt " e ", " x ", " w12 ", " e "\n" \
    "    smlad " o ", " x ", " w12 ", " o "\n" \
    "    smlad " ne ", " x ", " w01 ", " start "\n" \
    "    smlatb " no ", " x ", " w01 ", " no "\n"

/* Requantizes `y`, with the multiplier in r12 and the addend in lr. */
#define GE_DSP_WIDE_ANY(y) "    smmlar " y ", " y ", r12, lr\n" "    ssat " y ", #16, " y "\n"
#define GE_DSP_WIDE_RELU(y) "    smmulr " y ", " y ", r12\n" "    usat " y ", #15, " y "\n"
#define GE_DSP_WIDE_SYMMETRIC(y) "    smmulr " y ", " y ", r12\n" "    ssat " y ", #16, " y "\n"

/* Computes two outputs; `again` reloads the step where the requantization has overwritten its register. */
#define GE_DSP_WIDE_STEP2(e, o, ne, no, law, second, again) \
    "    ldr.w " no ", [sp, #4*11]\n" \
    "    ldr.w lr, [r0, #64]\n" \
    "    ldr r12, [r0, #48]!\n" \
    GE_DSP_WIDE_WORD("r12", "r2", "r3", e, o, ne, no, no) \
    "    ldr.w r12, [r0, #32]\n" \
    GE_DSP_WIDE_WORD("lr", "r4", "r5", e, o, ne, no, ne) \
    GE_DSP_WIDE_WORD("r12", "r6", "r7", e, o, ne, no, ne) \
    "    ldr.w r12, [sp, #4*12]\n" \
    "    ldr.w lr, [sp, #4*" second "]\n" \
    law(e) \
    law(o) \
    again \
    "    strh.w " e ", [r1]\n" \
    "    strh.w " o ", [r1, lr]\n" \
    "    add.w r1, r1, lr, lsl #1\n"

/* Computes a line; the last three arguments are labels. */
#define GE_DSP_WIDE_LINE(law, second, again, two, middle, last) \
    "    ldr.w lr, [sp, #4*10]\n" \
    "    cmp.w r0, lr\n" \
    "    beq.w " last "f\n" \
    "    ldr.w lr, [sp, #4*6]\n" \
    "    tst.w lr, #1\n" \
    "    beq.w " two "f\n" \
    "    mov.w r10, r8\n" \
    "    mov.w r11, r9\n" \
    "    b.w " middle "f\n" \
    "    .balign 4\n" \
    two ":\n" \
    GE_DSP_WIDE_STEP2("r8", "r9", "r10", "r11", law, second, again) \
    middle ":\n" \
    GE_DSP_WIDE_STEP2("r10", "r11", "r8", "r9", law, second, again) \
    "    ldr.w lr, [sp, #4*10]\n" \
    "    cmp.w r0, lr\n" \
    "    bne.w " two "b\n" \
    last ":\n" \
    "    ldr.w lr, [sp, #4*7]\n" \
    "    cmp.w lr, #0\n" \
    "    beq.w 9f\n" \
    "    ldr.w lr, [r0, #64]\n" \
    "    ldr.w r9, [r0, #80]\n" \
    "    ldr.w r12, [r0, #48]\n" \
    "    smlabt r8, r12, r3, r8\n" \
    "    smlabt r8, lr, r5, r8\n" \
    "    smlabt r8, r9, r7, r8\n" \
    "    ldr.w r12, [sp, #4*12]\n" \
    "    ldr.w lr, [sp, #4*3]\n" \
    law("r8") \
    "    strh.w r8, [r1]\n" \
    "    b.w 9f\n"

#define GE_DSP_WIDE_AGAIN "    ldr.w lr, [sp, #4*5]\n"

/* Sets the end of a line's outputs in the ring, and begins the loop over channels. */
#define GE_DSP_WIDE_CHANNEL \
    "    add.w r8, r8, r8, lsl #1\n" \
    "    add.w r8, r1, r8, lsl #4\n" /* 48 bytes for two outputs */ \
    "    str.w r8, [sp, #4*10]\n" \
    "1:\n" \
    "    ldr.w r10, [sp, #4*2]\n" \
    "    ldr.w r12, [sp, #4*1]\n" \
    "    ldr.w r0, [sp, #4*0]\n" \
    "    ldr.w r1, [sp, #4*4]\n"

/* Advances the frame to the next channel; Z is set after the last one. */
#define GE_DSP_WIDE_NEXT \
    "    ldr.w r2, [sp, #4*0]\n" \
    "    ldr.w r3, [sp, #4*1]\n" \
    "    ldr.w r4, [sp, #4*2]\n" \
    "    ldr.w r5, [sp, #4*4]\n" \
    "    ldr.w r6, [sp, #4*9]\n" \
    "    ldr.w r8, [sp, #4*10]\n" \
    "    add.w r2, r2, #4\n" \
    "    add.w r3, r3, #4*13\n" \
    "    add.w r4, r4, #4*13\n" \
    "    add.w r5, r5, #2\n" \
    "    subs.w r6, r6, #1\n" \
    "    add.w r8, r8, #4\n" \
    "    str.w r2, [sp, #4*0]\n" \
    "    str.w r3, [sp, #4*1]\n" \
    "    str.w r4, [sp, #4*2]\n" \
    "    str.w r5, [sp, #4*4]\n" \
    "    str.w r6, [sp, #4*9]\n" \
    "    str.w r8, [sp, #4*10]\n"

/* Computes the channels of one line, one after another. */
__attribute__((unused, noinline)) static void ge_dsp_wide_line(const ge_dsp_wide_line_job *job) {
    register const ge_dsp_wide_line_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_ENTER(ge_dsp_wide_line, 0, "r1-r6, r8-r11")
        GE_DSP_WIDE_CHANNEL
        "    ldr.w r11, [sp, #4*8]\n"
        "    ldr.w r8, [r10, #40]\n"
        "    ldr.w r9, [r10, #44]\n"
        "    ldm.w r12, {r2-r7}\n"
        "    str.w r8, [sp, #4*11]\n"
        "    str.w r9, [sp, #4*12]\n"
        "    ldr.w r12, [r0]\n"
        "    ldr.w lr, [r0, #16]\n"
        "    ldr.w r10, [r0, #32]\n"
        "    smlatb r9, r12, r2, r8\n"
        "    smlad r8, r12, r2, r8\n"
        "    smlatb r9, lr, r4, r9\n"
        "    smlad r8, lr, r4, r8\n"
        "    smlatb r9, r10, r6, r9\n"
        "    smlad r8, r10, r6, r8\n"
        "    cmp.w r11, #1\n"
        "    beq.w 5f\n"
        "    bgt.w 10f\n"
        GE_DSP_WIDE_LINE(GE_DSP_WIDE_SYMMETRIC, "5", "", "2", "3", "4")
        "5:\n"
        GE_DSP_WIDE_LINE(GE_DSP_WIDE_RELU, "5", "", "6", "7", "8")
        "10:\n"
        GE_DSP_WIDE_LINE(GE_DSP_WIDE_ANY, "3", GE_DSP_WIDE_AGAIN, "11", "12", "13")
        "9:\n" /* the next channel */
        GE_DSP_WIDE_NEXT
        "    bne.w 1b\n"
        GE_DSP_LEAVE
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

static inline uint32_t ge_dsp_wide_halves(int32_t low, int32_t high) {
    return ((uint32_t)low & 0xFFFFu) | (uint32_t)high << 16;
}

static inline int32_t ge_dsp_wide_weight(const void *weights, int32_t bytes, int32_t at) {
    return bytes == 1 ? ((const int8_t *)weights)[at] : ((const int16_t *)weights)[at];
}

/* Writes the words of the weights of one line, `along` weights apart. */
static inline void ge_dsp_wide_taps(const void *weights, int32_t bytes, int32_t at, int32_t along, uint32_t *to) {
    const uint32_t a = (uint32_t)ge_dsp_wide_weight(weights, bytes, at);
    const uint32_t b = (uint32_t)ge_dsp_wide_weight(weights, bytes, at + along);
    const uint32_t d = (uint32_t)ge_dsp_wide_weight(weights, bytes, at + 2 * along);
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(to[0]) : "r"(a), "r"(b));
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(to[1]) : "r"(b), "r"(d));
}

/* Writes the block of channel c, whose weights have `bytes` bytes each. */
__attribute__((unused, noinline)) static void ge_dsp_wide_block(const ge_conv2d_s16_params *p, const void *weights,
                                                                int32_t bytes, int32_t c, int32_t down,
                                                                uint32_t *block) {
    const int32_t along = down ? 3 * p->out_c : p->out_c; /* from weight to weight of a line */
    const int32_t across = down ? p->out_c : 3 * p->out_c;
    ge_dsp_wide_taps(weights, bytes, c, along, block);
    ge_dsp_wide_taps(weights, bytes, c + across, along, block + 2);
    ge_dsp_wide_taps(weights, bytes, c + 2 * across, along, block + 4);
    for (int32_t i = 0; i < 4; i++) {
        block[6 + i] = block[i];
    }
}

/* The lines of a call: `length` outputs each, `words` pairs in the ring, the first window at input `origin`. */
typedef struct {
    int32_t down; /* 1: lines are columns */
    int32_t length;
    int32_t words;
    int32_t origin;
    int32_t in_length;
    int32_t in_lines;
    int32_t channels; /* at a time: 4, or 2 where there are fewer than 4 */
    int32_t step;     /* half-words from input to input, if that is always the same */
    int32_t stepped;  /* 1: it is */
    uint32_t padding[2];
    uint32_t empty; /* bit i: slot i of the ring holds padding */
} ge_dsp_wide_lines;

/* Writes two inputs of two channels as two words of the ring. */
static inline void ge_dsp_wide_pair(uint32_t a, uint32_t b, uint32_t *to) {
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(to[0]) : "r"(a), "r"(b));
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(to[1]) : "r"(b), "r"(a));
}

/* clang-format off */

/* Packs `pairs` pairs of inputs of four channels, `step` bytes apart: 19 cycles for 8 values. */
__attribute__((unused, noinline)) static void ge_dsp_wide_pairs(const int16_t *x, int32_t step, int32_t pairs, uint32_t *to) {
    register const int16_t *r0 __asm__("r0") = x; /* in named registers, as -O0 finds too few */
    register int32_t r1 __asm__("r1") = step;
    register int32_t r2 __asm__("r2") = pairs;
    register uint32_t *r3 __asm__("r3") = to;
    __asm__ volatile("    add.w r12, r0, r1\n"
                     "    .balign 4\n"
                     "1:\n"
                     "    ldr.w r4, [r0]\n"
                     "    ldr.w r5, [r0, #4]\n"
                     "    ldr.w r6, [r12]\n"
                     "    ldr.w r8, [r12, #4]\n"
                     "    add.w r0, r0, r1, lsl #1\n"
                     "    add.w r12, r12, r1, lsl #1\n"
                     "    subs.w r2, r2, #1\n"
                     "    pkhbt r9, r4, r6, lsl #16\n"
                     "    pkhtb r6, r6, r4, asr #16\n"
                     "    pkhbt r4, r5, r8, lsl #16\n"
                     "    pkhtb r8, r8, r5, asr #16\n"
                     "    str.w r6, [r3, #4]\n"
                     "    str.w r4, [r3, #8]\n"
                     "    str.w r8, [r3, #12]\n"
                     "    str.w r9, [r3], #48\n"
                     "    bne.w 1b\n"
                     : "+r"(r0), "+r"(r2), "+r"(r3)
                     : "r"(r1)
                     : "r4", "r5", "r6", "r8", "r9", "r12", "cc", "memory");
}

/* clang-format on */

/* Returns the address of input i of a line from channel c on, or `padding`. */
static inline const int16_t *ge_dsp_wide_element(const ge_conv2d_s16_params *p, const ge_dsp_wide_lines *g,
                                                 const ge_rows *x, int32_t line, int32_t i, int32_t c) {
    if (i < 0 || i >= g->in_length) {
        return (const int16_t *)(const void *)g->padding;
    }
    return (const int16_t *)ge_row(x, g->down ? i : line) + (g->down ? line : i) * p->in_c + c;
}

/* Writes two inputs of two or four channels as words of the ring. */
static inline void ge_dsp_wide_both(const int16_t *a, const int16_t *b, int32_t channels, uint32_t *to) {
    uint32_t one, other;
    memcpy(&one, a, 4);
    memcpy(&other, b, 4);
    ge_dsp_wide_pair(one, other, to);
    if (channels == 4) {
        memcpy(&one, a + 2, 4);
        memcpy(&other, b + 2, 4);
        ge_dsp_wide_pair(one, other, to + 2);
    }
}

/* Packs an input line in equal steps; four channels are packed two inputs at a time. */
__attribute__((unused, noinline)) static void ge_dsp_wide_pack_steps(const ge_dsp_wide_lines *g, const int16_t *from,
                                                                     uint32_t *to) {
    const int16_t *const padding = (const int16_t *)(const void *)g->padding;
    const int32_t channels = g->channels, step = g->step, end = g->origin + 2 * g->words;
    const int32_t known = end < g->in_length ? end : g->in_length;
    int32_t i = g->origin;
    for (; i < 0 && i < end; i += 2) {
        ge_dsp_wide_both(padding, i == -1 && known > 0 ? from : padding, channels, to);
        to += GE_DSP_WIDE_RING;
    }
    from += i * step;
    if (channels == 4 && known - i >= 2) {
        const int32_t pairs = (known - i) >> 1;
        ge_dsp_wide_pairs(from, 2 * step, pairs, to);
        i += 2 * pairs;
        from += 2 * pairs * step;
        to += pairs * GE_DSP_WIDE_RING;
    }
    for (; i < end; i += 2) {
        ge_dsp_wide_both(i < known ? from : padding, i + 1 < known ? from + step : padding, channels, to);
        from += 2 * step;
        to += GE_DSP_WIDE_RING;
    }
}

/* Packs an input line from channel c on, whose inputs need not be equally spaced. */
__attribute__((unused, noinline)) static void ge_dsp_wide_pack_each(const ge_conv2d_s16_params *p,
                                                                    const ge_dsp_wide_lines *g, const ge_rows *x,
                                                                    int32_t line, int32_t c, uint32_t *to) {
    for (int32_t i = g->origin; i < g->origin + 2 * g->words; i += 2) {
        ge_dsp_wide_both(ge_dsp_wide_element(p, g, x, line, i, c), ge_dsp_wide_element(p, g, x, line, i + 1, c),
                         g->channels, to);
        to += GE_DSP_WIDE_RING;
    }
}

/* Packs an input line from channel c on into a slot of the ring, unless it is padding and the slot holds some. */
static inline void ge_dsp_wide_pack(const ge_conv2d_s16_params *p, ge_dsp_wide_lines *g, const ge_rows *x, int32_t line,
                                    int32_t c, uint32_t *ring, int32_t slot) {
    const uint32_t bit = 1u << slot;
    uint32_t *to = ring + 4 * slot;
    if (line >= 0 && line < g->in_lines) {
        g->empty &= ~bit;
        if (!g->stepped) {
            ge_dsp_wide_pack_each(p, g, x, line, c, to);
        } else if (g->down) {
            ge_dsp_wide_pack_steps(g, (const int16_t *)x->data + line * p->in_c + c, to);
        } else {
            ge_dsp_wide_pack_steps(g, (const int16_t *)ge_row(x, line) + c, to);
        }
    } else if ((g->empty & bit) == 0) {
        g->empty |= bit;
        for (int32_t pair = 0; pair < g->words; pair++) {
            for (int32_t i = 0; i < 4; i++) {
                to[i] = g->padding[0];
            }
            to += GE_DSP_WIDE_RING;
        }
    }
}

/* Computes the channels from c on of all lines. */
static inline void ge_dsp_wide_all_lines(const ge_conv2d_s16_params *p, ge_dsp_wide_lines *g, const ge_rows *x,
                                         const ge_rows *out, int32_t first, int32_t last, int32_t c, uint32_t *ring,
                                         ge_dsp_wide_line_job *job, ge_dsp_wide_line_of *line_of) {
    const int32_t begin = g->down ? 0 : first;
    const int32_t end = g->down ? p->out_w : last;
    const int32_t top = begin - (g->down ? p->pad_left : p->pad_top);
    int32_t slot = 0; /* the next slot to fill */
    for (int32_t in = top; in < top + 2 + end - begin; in++) {
        ge_dsp_wide_pack(p, g, x, in, c, ring, slot);
        slot = slot == 2 ? 0 : slot + 1;
        const int32_t line = in - top - 2 + begin;
        if (line < begin) {
            continue;
        }
        job->taps = job->block + (slot == 0 ? 0 : 2 * (3 - slot));
        job->out = (int16_t *)ge_row(out, g->down ? first : line) + (g->down ? line * p->out_c : 0) + c;
        line_of(job);
    }
}

/* Computes output rows first..last-1 with a loop, whose law is `law`. scratch: [blocks of four channels][ring]. */
static inline void ge_dsp_wide_lines_by(ge_dsp_wide_line_of *line_of, int32_t law, const ge_conv2d_s16_params *p,
                                        const ge_rows *x, const void *weights, int32_t bytes, const int64_t *bias,
                                        const int32_t *multiplier, const ge_rows *out, int32_t first, int32_t last,
                                        void *scratch) {
    uint32_t *const blocks = (uint32_t *)scratch;
    uint32_t *const ring = blocks + 4 * GE_DSP_WIDE_BLOCK;
    ge_dsp_wide_lines g;
    g.down = last - first > p->out_w && out->slots == NULL;
    g.length = g.down ? last - first : p->out_w;
    g.words = (g.length + 3) / 2;
    g.origin = g.down ? first - p->pad_top : -p->pad_left;
    g.in_length = g.down ? p->in_h : p->in_w;
    g.in_lines = g.down ? p->in_w : p->in_h;
    g.channels = p->out_c < 4 ? 2 : 4;
    g.step = g.down ? x->stride / 2 : p->in_c;
    g.stepped = !g.down || x->slots == NULL;
    g.padding[0] = ge_dsp_wide_halves(p->in_zero_point, p->in_zero_point);
    g.padding[1] = g.padding[0];
    g.empty = 0;
    const int32_t step = g.down ? out->stride : 2 * p->out_c;
    const int32_t rest = p->out_c % g.channels;
    for (int32_t c = 0; c < p->out_c; c += c == 0 && rest != 0 ? rest : g.channels) {
        for (int32_t i = 0; i < g.channels; i++) {
            uint32_t *const block = blocks + i * GE_DSP_WIDE_BLOCK;
            ge_dsp_wide_block(p, weights, bytes, c + i, g.down, block);
            block[10] = (uint32_t)bias[c + i];
            block[11] = (uint32_t)multiplier[c + i];
            block[12] = (uint32_t)((uint64_t)bias[c + i] >> 32);
        }
        ge_dsp_wide_line_job job = {ring,         NULL,         blocks, p->out_zero_point, NULL, step,
                                    g.length / 2, g.length & 1, law,    g.channels};
        ge_dsp_wide_all_lines(p, &g, x, out, first, last, c, ring, &job, line_of);
    }
}

/* Computes output rows first..last-1 with sums of 32 bits. */
static inline void ge_dsp_wide_depthwise3x3(const ge_conv2d_s16_params *p, const ge_rows *x, const void *weights,
                                            int32_t bytes, const int64_t *bias, const int32_t *multiplier,
                                            const ge_rows *out, int32_t first, int32_t last, void *scratch) {
    const int32_t relu = ge_dsp_wide_is_relu(p->lo, p->hi);
    const int32_t law = p->out_zero_point != 0 ? 2 : relu;
    ge_dsp_wide_lines_by(ge_dsp_wide_line, law, p, x, weights, bytes, bias, multiplier, out, first, last, scratch);
    ge_dsp_wide_bounds(p, out, first, last, law == 1);
}

#endif
