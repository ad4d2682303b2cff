/* 3x3 depthwise convolution, stride 1, of int16 for Cortex-M4, M7 and M33: two channels at a time, pixels in pairs.
 *
 * Lines are rows, or columns where these are longer. A word of the ring holds two neighbours along a line of one
 * channel: ring[pair][slot][channel], where three lines lie in slots that they take in turn. The weights of a channel
 * are words (w0, w1) and (w1, w2) for each of three lines, and the first two again after the third, so that three
 * consecutive ones fit any rotation of the slots.
 *
 * r0 pixels, r1 out, r2-r7 weights, r8 r9 two outputs, r10 r11 the next two, r12 lr words. Every word is loaded once:
 * it completes two outputs and starts the next two. Cost: 33 cycles for 2 outputs, 8 per iteration of two such steps,
 * 60 per channel of a line; 3 per input that is packed. */
#ifndef GE_DSP_WIDE_DEPTHWISE_H
#define GE_DSP_WIDE_DEPTHWISE_H

#include "ge.h"
#include "ge_dsp_wide.h"
#include "ge_dsp_wide_window.h"
#include "ge_isa_dsp_frame.h"
#include "ge_params.h"

#pragma GCC diagnostic ignored "-Woverlength-strings"

#define GE_DSP_WIDE_RING 6  /* words of a pair: 3 slots x 2 channels */
#define GE_DSP_WIDE_TAPS 10 /* words of a channel: 5 lines x 2 */

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const uint32_t *x;
    const uint32_t *taps;
    int32_t bias;
    int32_t multiplier;
    int32_t zero_point;
    int16_t *out;
    int32_t step;  /* bytes from output to output */
    int32_t pairs; /* of outputs */
    int32_t rest;  /* 1: one more output follows */
    int32_t law;   /* 0: the zero point is 0; 1: it is 0 and outputs saturate to 0..32767; 2: neither */
} ge_dsp_wide_line_job;

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
    "    ldr.w " no ", [sp, #4*2]\n" \
    "    ldr.w lr, [r0, #32]\n" \
    "    ldr r12, [r0, #24]!\n" \
    GE_DSP_WIDE_WORD("r12", "r2", "r3", e, o, ne, no, no) \
    "    ldr.w r12, [r0, #16]\n" \
    GE_DSP_WIDE_WORD("lr", "r4", "r5", e, o, ne, no, ne) \
    GE_DSP_WIDE_WORD("r12", "r6", "r7", e, o, ne, no, ne) \
    "    ldr.w r12, [sp, #4*3]\n" \
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
    "    ldr.w lr, [sp, #4*7]\n" \
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
    "    ldr.w lr, [sp, #4*8]\n" \
    "    cmp.w lr, #0\n" \
    "    beq.w 9f\n" \
    "    ldr.w lr, [r0, #32]\n" \
    "    ldr.w r9, [r0, #40]\n" \
    "    ldr.w r12, [r0, #24]\n" \
    "    smlabt r8, r12, r3, r8\n" \
    "    smlabt r8, lr, r5, r8\n" \
    "    smlabt r8, r9, r7, r8\n" \
    "    ldr.w r12, [sp, #4*3]\n" \
    "    ldr.w lr, [sp, #4*4]\n" \
    law("r8") \
    "    strh.w r8, [r1]\n" \
    "    b.w 9f\n"

#define GE_DSP_WIDE_AGAIN "    ldr.w lr, [sp, #4*6]\n"

/* Computes one channel of one line. */
__attribute__((unused, noinline)) static void ge_dsp_wide_line(const ge_dsp_wide_line_job *job) {
    register const ge_dsp_wide_line_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_ENTER(ge_dsp_wide_line, 0, "r1-r6, r8-r11")
        "    mov.w r0, r1\n"
        "    mov.w r12, r2\n"
        "    mov.w r1, r6\n"
        "    add.w r9, r9, r9, lsl #1\n"
        "    add.w r9, r0, r9, lsl #3\n" /* 24 bytes for two outputs */
        "    str.w r9, [sp, #4*10]\n"
        "    mov.w r9, r3\n"
        "    ldm.w r12, {r2-r7}\n"
        "    ldr.w r12, [r0]\n"
        "    ldr.w lr, [r0, #8]\n"
        "    ldr.w r10, [r0, #16]\n"
        "    smlad r8, r12, r2, r9\n"
        "    smlatb r9, r12, r2, r9\n"
        "    smlad r8, lr, r4, r8\n"
        "    smlatb r9, lr, r4, r9\n"
        "    smlad r8, r10, r6, r8\n"
        "    smlatb r9, r10, r6, r9\n"
        "    cmp.w r11, #1\n"
        "    beq.w 5f\n"
        "    bgt.w 10f\n"
        GE_DSP_WIDE_LINE(GE_DSP_WIDE_SYMMETRIC, "6", "", "2", "3", "4")
        "5:\n"
        GE_DSP_WIDE_LINE(GE_DSP_WIDE_RELU, "6", "", "6", "7", "8")
        "10:\n"
        GE_DSP_WIDE_LINE(GE_DSP_WIDE_ANY, "4", GE_DSP_WIDE_AGAIN, "11", "12", "13")
        "9:\n"
        GE_DSP_LEAVE
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

static inline uint32_t ge_dsp_wide_halves(int32_t low, int32_t high) {
    return ((uint32_t)low & 0xFFFFu) | (uint32_t)high << 16;
}

/* Writes the weights of channel c, of `bytes` bytes each, in the order of the loop. */
static inline void ge_dsp_wide_taps(const ge_conv2d_s16_params *p, const void *weights, int32_t bytes, int32_t c,
                                    int32_t down, uint32_t *taps) {
    for (int32_t line = 0; line < 3; line++) {
        int32_t w[3];
        for (int32_t i = 0; i < 3; i++) {
            const int32_t at = (down ? 3 * i + line : 3 * line + i) * p->out_c + c;
            w[i] = bytes == 1 ? ((const int8_t *)weights)[at] : ((const int16_t *)weights)[at];
        }
        taps[2 * line] = ge_dsp_wide_halves(w[0], w[1]);
        taps[2 * line + 1] = ge_dsp_wide_halves(w[1], w[2]);
    }
    for (int32_t i = 0; i < 4; i++) {
        taps[6 + i] = taps[i];
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
} ge_dsp_wide_lines;

/* Writes two inputs of two channels as two words of the ring. */
static inline void ge_dsp_wide_pair(uint32_t a, uint32_t b, uint32_t *to) {
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(to[0]) : "r"(a), "r"(b));
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(to[1]) : "r"(b), "r"(a));
}

/* Packs `fours` times four inputs, `step` bytes apart: 19 cycles for 8 values. */
static inline void ge_dsp_wide_pairs(const int16_t *x, int32_t step, int32_t fours, uint32_t *to) {
    const int32_t step3 = 3 * step;
    uint32_t a, b, c, d, u;
    __asm__ volatile("    .balign 4\n"
                     "1:\n"
                     "    ldr.w %[a], [%[x]]\n"
                     "    ldr.w %[b], [%[x], %[step]]\n"
                     "    ldr.w %[c], [%[x], %[step], lsl #1]\n"
                     "    ldr.w %[d], [%[x], %[step3]]\n"
                     "    add.w %[x], %[x], %[step], lsl #2\n"
                     "    subs.w %[n], %[n], #1\n"
                     "    pkhbt %[u], %[a], %[b], lsl #16\n"
                     "    pkhtb %[b], %[b], %[a], asr #16\n"
                     "    pkhbt %[a], %[c], %[d], lsl #16\n"
                     "    pkhtb %[d], %[d], %[c], asr #16\n"
                     "    str.w %[b], [%[to], #4]\n"
                     "    str.w %[a], [%[to], #24]\n"
                     "    str.w %[d], [%[to], #28]\n"
                     "    str.w %[u], [%[to]], #48\n"
                     "    bne.w 1b\n"
                     : [x] "+&r"(x), [to] "+&r"(to), [n] "+&r"(fours), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c),
                       [d] "=&r"(d), [u] "=&r"(u)
                     : [step] "r"(step), [step3] "r"(step3)
                     : "cc", "memory");
}

/* Returns two channels of input i of a line, or padding. */
static inline uint32_t ge_dsp_wide_element(const ge_conv2d_s16_params *p, const ge_dsp_wide_lines *g, const ge_rows *x,
                                           int32_t line, int32_t i, int32_t c) {
    uint32_t word = ge_dsp_wide_halves(p->in_zero_point, p->in_zero_point);
    if (i >= 0 && i < g->in_length) {
        const int32_t iy = g->down ? i : line;
        memcpy(&word, (const int16_t *)ge_row(x, iy) + (g->down ? line : i) * p->in_c + c, 4);
    }
    return word;
}

/* Packs two channels of an input line into their slot of the ring, four inputs at a time except near the ends. */
__attribute__((unused, noinline)) static void ge_dsp_wide_pack(const ge_conv2d_s16_params *p,
                                                               const ge_dsp_wide_lines *g, const ge_rows *x,
                                                               int32_t line, int32_t c, uint32_t *to) {
    const int32_t inside = line >= 0 && line < g->in_lines;
    const int32_t step = g->down ? x->stride / 2 : p->in_c;
    const int32_t end = g->origin + 2 * g->words;
    const int32_t known = end < g->in_length ? end : g->in_length;
    int32_t i = g->origin;
    if (!inside) {
        const uint32_t zeros = ge_dsp_wide_halves(p->in_zero_point, p->in_zero_point);
        for (; i < end; i += 2) {
            to[0] = zeros;
            to[1] = zeros;
            to += GE_DSP_WIDE_RING;
        }
        return;
    }
    const int32_t even = !(g->down && x->slots != NULL); /* whether inputs are equally spaced */
    const int16_t *const from =
        (g->down ? (const int16_t *)x->data + line * p->in_c : (const int16_t *)ge_row(x, line)) + c;
    if (even && i == -1 && g->in_length > 0) {
        uint32_t word;
        memcpy(&word, from, 4);
        ge_dsp_wide_pair(ge_dsp_wide_halves(p->in_zero_point, p->in_zero_point), word, to);
        to += GE_DSP_WIDE_RING;
        i = 1;
    }
    for (; i < 0 && i < end; i += 2) {
        ge_dsp_wide_pair(ge_dsp_wide_element(p, g, x, line, i, c), ge_dsp_wide_element(p, g, x, line, i + 1, c), to);
        to += GE_DSP_WIDE_RING;
    }
    const int32_t fours = even && known > i ? (known - i) / 4 : 0;
    if (fours > 0) {
        ge_dsp_wide_pairs(from + i * step, 2 * step, fours, to);
        i += 4 * fours;
        to += 2 * fours * GE_DSP_WIDE_RING;
    }
    for (; i < end; i += 2) {
        ge_dsp_wide_pair(ge_dsp_wide_element(p, g, x, line, i, c), ge_dsp_wide_element(p, g, x, line, i + 1, c), to);
        to += GE_DSP_WIDE_RING;
    }
}

/* Computes two channels from c on of all lines. */
static inline void ge_dsp_wide_two(const ge_conv2d_s16_params *p, const ge_dsp_wide_lines *g, const ge_rows *x,
                                   const ge_rows *out, int32_t first, int32_t last, int32_t c, uint32_t *ring,
                                   ge_dsp_wide_line_job *jobs) {
    const int32_t begin = g->down ? 0 : first;
    const int32_t end = g->down ? p->out_w : last;
    const int32_t top = begin - (g->down ? p->pad_left : p->pad_top);
    const uint32_t *const taps[2] = {jobs[0].taps, jobs[1].taps};
    int32_t slot = 0; /* the next slot to fill */
    for (int32_t in = top; in < top + 2; in++) {
        ge_dsp_wide_pack(p, g, x, in, c, ring + 2 * slot++);
    }
    for (int32_t line = begin; line < end; line++) {
        ge_dsp_wide_pack(p, g, x, top + 2 + line - begin, c, ring + 2 * slot);
        slot = slot == 2 ? 0 : slot + 1;
        int16_t *const to = (int16_t *)ge_row(out, g->down ? first : line) + (g->down ? line * p->out_c : 0) + c;
        for (int32_t i = 0; i < 2; i++) {
            jobs[i].taps = taps[i] + (slot == 0 ? 0 : 2 * (3 - slot));
            jobs[i].out = to + i;
            ge_dsp_wide_line(&jobs[i]);
        }
    }
}

/* Computes output rows first..last-1. scratch: [weights of two channels][ring]. */
static inline void ge_dsp_wide_depthwise3x3(const ge_conv2d_s16_params *p, const ge_rows *x, const void *weights,
                                            int32_t bytes, const int64_t *bias, const int32_t *multiplier,
                                            const ge_rows *out, int32_t first, int32_t last, void *scratch) {
    uint32_t *const taps = (uint32_t *)scratch;
    uint32_t *const ring = taps + 2 * GE_DSP_WIDE_TAPS;
    ge_dsp_wide_lines g;
    g.down = last - first > p->out_w && out->slots == NULL;
    g.length = g.down ? last - first : p->out_w;
    g.words = (g.length + 3) / 2;
    g.origin = g.down ? first - p->pad_top : -p->pad_left;
    g.in_length = g.down ? p->in_h : p->in_w;
    g.in_lines = g.down ? p->in_w : p->in_h;
    const int32_t step = g.down ? out->stride : 2 * p->out_c;
    for (int32_t c = 0; c < p->out_c; c += c == 0 && (p->out_c & 1) != 0 ? 1 : 2) {
        ge_dsp_wide_line_job jobs[2];
        for (int32_t i = 0; i < 2; i++) {
            uint32_t *const w = taps + i * GE_DSP_WIDE_TAPS;
            ge_dsp_wide_taps(p, weights, bytes, c + i, g.down, w);
            jobs[i] = (ge_dsp_wide_line_job){ring + i,
                                             w,
                                             (int32_t)bias[c + i],
                                             multiplier[c + i],
                                             p->out_zero_point,
                                             NULL,
                                             step,
                                             g.length / 2,
                                             g.length & 1,
                                             p->out_zero_point != 0 ? 2 : ge_dsp_wide_is_relu(p->lo, p->hi)};
        }
        ge_dsp_wide_two(p, &g, x, out, first, last, c, ring, jobs);
    }
    ge_dsp_wide_bounds(p, out, first, last);
}

#endif
