/* Products of int16 with int16 in 32-bit sums for Cortex-M4, M7 and M33: four channels of many pairs of pixels.
 *
 * Weights of four channels are words of two k: [4 start values][pairs of k][4 channels][4 multipliers]. All sums are
 * modulo 2^32, so they are exact where the whole sum fits 32 bits; the Python code proves this for each channel. The
 * requantization has shift 32. Consecutive loads from one base are not all post-indexed: only the last one of a burst
 * advances the pointer.
 *
 * r0 weights, r1 pixels, r2 r3 the first channel of both pixels ... r8 r9 the fourth, r10 r11 weights, r12 lr pixels.
 * Cost: 16 cycles for 16 products, 6 per iteration of 16 such steps, 60 per 8 outputs. */
#ifndef GE_ISA_DSP_WIDE_H
#define GE_ISA_DSP_WIDE_H

#include "ge.h"
#include "ge_dsp_wide.h"
#include "ge_dsp_wide_window.h"
#include "ge_isa_dsp_frame.h"
#include "ge_params.h"

#pragma GCC diagnostic ignored "-Woverlength-strings"

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const uint32_t *x;   /* columns of two pixels, interleaved */
    int16_t *const *out; /* where each pixel's channels begin; an even number */
    int16_t *const *end; /* of these addresses */
    const uint32_t *w;
    const uint32_t *w_end; /* end of the weights: the multipliers */
    uint32_t skip;         /* bytes of the unrolled loop that its first iteration skips */
    int32_t zero_point;
    int32_t channel; /* the first channel, as an offset in bytes from the addresses in `out` */
    int32_t relu;    /* 1: outputs saturate to 0..32767 */
} ge_dsp_wide_job;

#define GE_DSP_WIDE_STEP 56
#define GE_DSP_WIDE_UNROLL 16

/* clang-format off */

__attribute__((unused, noinline)) static void ge_dsp_wide_products(const ge_dsp_wide_job *job) {
    register const ge_dsp_wide_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_ENTER(ge_dsp_wide_products, 0, "r1-r6, r8-r10")
        "    adr r1, 3f\n"
        "    ldr.w r2, [sp, #4*5]\n"
        "    add r1, r1, r2\n"
        "    orr r1, r1, #1\n"
        "    str.w r1, [sp, #4*5]\n"
        "    b.w 2f\n"
        "    .balign 4\n"
        "2:\n" /* two pixels */
        "    ldr.w r0, [sp, #4*3]\n"
        "    ldr.w r1, [sp, #4*0]\n"
        "    ldr.w r12, [sp, #4*5]\n"
        "    ldr.w r4, [r0, #4]\n"
        "    ldr.w r6, [r0, #8]\n"
        "    ldr.w r8, [r0, #12]\n"
        "    ldr.w r2, [r0], #16\n"
        "    mov.w r5, r4\n"
        "    mov.w r7, r6\n"
        "    mov.w r9, r8\n"
        "    mov.w r3, r2\n"
        "    bx r12\n"
        "    .balign 4\n"
        "3:\n"
        "    .rept 16\n"
        "    ldr.w r10, [r0, #4]\n"
        "    ldr.w r11, [r0, #8]\n"
        "    ldr.w lr, [r1, #4]\n"
        "    ldr.w r12, [r1], #8\n"
        "    smlad r4, r10, r12, r4\n"
        "    smlad r5, r10, lr, r5\n"
        "    smlad r6, r11, r12, r6\n"
        "    smlad r7, r11, lr, r7\n"
        "    ldr.w r11, [r0, #12]\n"
        "    ldr.w r10, [r0], #16\n"
        "    smlad r8, r11, r12, r8\n"
        "    smlad r9, r11, lr, r9\n"
        "    smlad r2, r10, r12, r2\n"
        "    smlad r3, r10, lr, r3\n"
        "    .endr\n"
        "    ldr.w r12, [sp, #4*4]\n"
        "    cmp.w r0, r12\n"
        "    bne.w 3b\n"
        "    str.w r1, [sp, #4*0]\n"
        "    ldr.w r1, [sp, #4*6]\n"
        "    ldr.w r10, [r0]\n"
        "    ldr.w r11, [r0, #4]\n"
        "    ldr.w r12, [r0, #8]\n"
        "    ldr.w lr, [r0, #12]\n"
        "    smmlar r2, r2, r10, r1\n"
        "    smmlar r3, r3, r10, r1\n"
        "    smmlar r4, r4, r11, r1\n"
        "    smmlar r5, r5, r11, r1\n"
        "    smmlar r6, r6, r12, r1\n"
        "    smmlar r7, r7, r12, r1\n"
        "    smmlar r8, r8, lr, r1\n"
        "    smmlar r9, r9, lr, r1\n"
        "    ldr.w r1, [sp, #4*1]\n"
        "    ldr.w r0, [sp, #4*7]\n"
        "    ldr.w r10, [sp, #4*8]\n"
        "    ldr.w lr, [sp, #4*2]\n"
        "    ldr.w r12, [r1, #4]\n"
        "    ldr.w r11, [r1], #8\n"
        "    str.w r1, [sp, #4*1]\n"
        "    add.w r12, r12, r0\n"
        "    add.w r11, r11, r0\n"
        "    cmp.w r10, #0\n"
        "    beq.w 5f\n"
        "    usat r2, #15, r2\n"
        "    usat r3, #15, r3\n"
        "    usat r4, #15, r4\n"
        "    usat r5, #15, r5\n"
        "    usat r6, #15, r6\n"
        "    usat r7, #15, r7\n"
        "    usat r8, #15, r8\n"
        "    usat r9, #15, r9\n"
        "4:\n"
        "    strh.w r3, [r12]\n" /* a lone pixel is written last */
        "    strh.w r5, [r12, #2]\n"
        "    strh.w r7, [r12, #4]\n"
        "    strh.w r9, [r12, #6]\n"
        "    cmp.w r1, lr\n"
        "    strh.w r2, [r11]\n"
        "    strh.w r4, [r11, #2]\n"
        "    strh.w r6, [r11, #4]\n"
        "    strh.w r8, [r11, #6]\n"
        "    bne.w 2b\n"
        "    b.w 6f\n"
        "5:\n"
        "    ssat r2, #16, r2\n"
        "    ssat r3, #16, r3\n"
        "    ssat r4, #16, r4\n"
        "    ssat r5, #16, r5\n"
        "    ssat r6, #16, r6\n"
        "    ssat r7, #16, r7\n"
        "    ssat r8, #16, r8\n"
        "    ssat r9, #16, r9\n"
        "    b.w 4b\n"
        "6:\n"
        GE_DSP_LEAVE
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* Expands int8 weights of four channels in flash, for each four k the bytes k0 k2 k1 k3 of each channel, to words of
 * two k: 20 cycles for 16 weights. */
__attribute__((unused, noinline)) static void ge_dsp_wide_expand(const uint32_t *from, int32_t fours, uint32_t *to) {
    register const uint32_t *r0 __asm__("r0") = from; /* in named registers, as -O0 finds no registers for three more
                                                       * operands */
    register uint32_t *r1 __asm__("r1") = to;
    register int32_t r12 __asm__("r12") = fours;
    __asm__ volatile(
        "    .balign 4\n"
        "1:\n"
        "    ldm.w r0!, {r2-r5}\n"
        "    sxtb16 r6, r2\n"
        "    sxtb16 r8, r3\n"
        "    sxtb16 r9, r4\n"
        "    sxtb16 r10, r5\n"
        "    stm.w r1!, {r6, r8, r9, r10}\n"
        "    subs.w r12, r12, #1\n"
        "    sxtb16 r6, r2, ror #8\n"
        "    sxtb16 r8, r3, ror #8\n"
        "    sxtb16 r9, r4, ror #8\n"
        "    sxtb16 r10, r5, ror #8\n"
        "    stm.w r1!, {r6, r8, r9, r10}\n"
        "    bne.w 1b\n"
        : "+r"(r0), "+r"(r1), "+r"(r12)
        :
        : "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "cc", "memory");
}

/* clang-format on */

/* State of one call of a convolution, in scratch. */
typedef struct {
    const ge_conv2d_s16_params *p;
    const uint32_t *stream; /* four channels after another, group after group */
    int32_t points;         /* 1: windows are pixels with a multiple of eight channels, without padding */
    int32_t depth;          /* input channels of a group */
    int32_t steps;          /* pairs of k */
    int32_t tile;           /* pixels at a time, even */
    int16_t **outs;         /* where the pixels' channels begin */
    uint32_t *columns;
    uint32_t *weights; /* where weights that are bytes are expanded; NULL: weights are half-words */
    ge_dsp_wide_job job;
} ge_dsp_wide_call;

#define GE_DSP_WIDE_STATE 72 /* bytes for it */

/* Returns the number of pixels at a time: 8 KB of columns, at least 8 pixels, and at most 64. */
static inline int32_t ge_dsp_wide_tile(int32_t steps) {
    const int32_t fit = 2048 / steps & ~1;
    return fit < 8 ? 8 : (fit > 64 ? 64 : fit);
}

/* Expands the weights of four channels; returns the rest of the stream. It is a function of its own to save stack. */
static GE_NOINLINE const uint32_t *ge_dsp_wide_widen(const ge_dsp_wide_call *c, const uint32_t *w) {
    const uint32_t *const multiplier = w + 4 + 2 * c->steps;
    memcpy(c->weights, w, 16);
    memcpy(c->weights + 4 + 4 * c->steps, multiplier, 16);
    ge_dsp_wide_expand(w + 4, c->steps / 2, c->weights + 4);
    return multiplier + 4;
}

/* Computes four channels of the pixels in the columns; returns the rest of the stream. */
static inline const uint32_t *ge_dsp_wide_four(const ge_dsp_wide_call *c, const uint32_t *w, ge_dsp_wide_job *job) {
    job->w = w;
    if (c->weights != NULL) {
        w = ge_dsp_wide_widen(c, w);
        job->w = c->weights;
    } else {
        w += 8 + 4 * c->steps;
    }
    job->w_end = job->w + 4 + 4 * c->steps;
    ge_dsp_wide_products(job);
    return w;
}

/* Fills in `count` pixels in group g, which are windows of their own; the first is output (y, ox). */
__attribute__((unused, noinline)) static void ge_dsp_wide_point_columns(const ge_dsp_wide_call *c, const ge_rows *x,
                                                                        const ge_rows *out, int32_t y, int32_t ox,
                                                                        int32_t count, int32_t g) {
    const ge_conv2d_s16_params *const p = c->p;
    const int32_t in_step = p->stride_w * p->in_c, out_step = p->out_c, words = c->depth / 2;
    int16_t **outs = c->outs;
    uint32_t *to = c->columns;
    const int16_t *even = NULL; /* the first pixel of a pair */
    while (count > 0) {
        const int32_t run = count < p->out_w - ox ? count : p->out_w - ox;
        const int16_t *from = (const int16_t *)ge_row(x, y * p->stride_h) + ox * in_step + g * c->depth;
        int16_t *o = (int16_t *)ge_row(out, y) + ox * out_step;
        for (int16_t **const end = outs + run; outs < end;) {
            *outs++ = o;
            o += out_step;
            if (even == NULL) {
                even = from;
            } else {
                ge_dsp_wide_points(even, from, words, to);
                to += 2 * words;
                even = NULL;
            }
            from += in_step;
        }
        count -= run;
        y++;
        ox = 0;
    }
    if (even != NULL) {
        ge_dsp_wide_points(even, even, words, to);
    }
    *outs = outs[-1];
}

/* Fills in the windows of `count` pixels in group g, the first of which is output (y, ox), and the addresses of their
 * outputs. */
__attribute__((unused, noinline)) static void ge_dsp_wide_columns(const ge_dsp_wide_call *c, const ge_rows *x,
                                                                  const ge_rows *out, int32_t y, int32_t ox,
                                                                  int32_t count, int32_t g) {
    uint32_t *to = c->columns;
    for (int32_t i = 0; i < count; i++) {
        uint32_t *const column = to + (i & 1);
        column[2 * c->steps - 2] = 0; /* where four k extend beyond the window */
        if (c->steps > 1) {
            column[2 * c->steps - 4] = 0;
        }
        ge_dsp_wide_window(c->p, x, y, ox, g * c->depth, c->depth, column);
        to += (i & 1) != 0 ? 2 * c->steps : 0;
        c->outs[i] = (int16_t *)ge_row(out, y) + ox * c->p->out_c;
        ox++;
        if (ox == c->p->out_w) {
            ox = 0;
            y++;
        }
    }
    c->outs[count] = c->outs[count - 1];
}

/* Computes all channels of `count` pixels, the first of which is output (y, ox). */
__attribute__((always_inline)) static inline void
ge_dsp_wide_pixels(ge_dsp_wide_call *c, const ge_rows *x, const ge_rows *out, int32_t y, int32_t ox, int32_t count) {
    const ge_conv2d_s16_params *const p = c->p;
    const int32_t channels = p->out_c / p->groups;
    const int32_t rest = channels % 4;
    const int32_t odd = c->steps % GE_DSP_WIDE_UNROLL; /* steps of the first iteration, 0: all */
    const uint32_t *w = c->stream;
    ge_dsp_wide_job *const job = &c->job;
    job->x = c->columns;
    job->out = c->outs;
    job->end = c->outs + (count + 1) / 2 * 2;
    job->skip = odd == 0 ? 0u : (uint32_t)((GE_DSP_WIDE_UNROLL - odd) * GE_DSP_WIDE_STEP);
    job->zero_point = p->out_zero_point;
    job->relu = ge_dsp_wide_is_relu(p->lo, p->hi);
    for (int32_t g = 0; g < p->groups; g++) {
        if (c->points) {
            ge_dsp_wide_point_columns(c, x, out, y, ox, count, g);
        } else {
            ge_dsp_wide_columns(c, x, out, y, ox, count, g);
        }
        for (int32_t o = 0; o < channels; o += o == 0 && rest != 0 ? rest : 4) {
            job->channel = 2 * (g * channels + o);
            w = ge_dsp_wide_four(c, w, job);
        }
    }
}

/* Computes output rows first..last-1. scratch: [state][tile + 1 addresses][columns of a tile][four channels of weights, if
 * narrow]. */
__attribute__((always_inline)) static inline void ge_dsp_wide_conv(const ge_conv2d_s16_params *p, const ge_rows *x,
                                                                   const uint32_t *stream, int32_t narrow,
                                                                   const ge_rows *out, int32_t first, int32_t last,
                                                                   void *scratch) {
    ge_dsp_wide_call *const c = (ge_dsp_wide_call *)scratch;
    c->p = p;
    c->stream = stream;
    c->depth = p->in_c / p->groups;
    c->outs = (int16_t **)scratch + GE_DSP_WIDE_STATE / 4;
    const int32_t products = p->kernel_h * p->kernel_w * c->depth;
    c->steps = narrow ? (products + 3) / 4 * 2 : (products + 1) / 2;
    c->tile = ge_dsp_wide_tile(c->steps);
    c->points = ge_dsp_wide_are_points(p);
    c->columns = (uint32_t *)scratch + GE_DSP_WIDE_STATE / 4 + c->tile + 2;
    c->weights = narrow ? c->columns + c->tile * c->steps : NULL;
    const int32_t pixels = (last - first) * p->out_w;
    for (int32_t done = 0; done < pixels; done += c->tile) {
        const int32_t count = pixels - done < c->tile ? pixels - done : c->tile;
        ge_dsp_wide_pixels(c, x, out, first + done / p->out_w, done % p->out_w, count);
    }
    ge_dsp_wide_bounds(p, out, first, last, ge_dsp_wide_is_relu(p->lo, p->hi));
}

#endif
