/* Code that convolutions of pairs of pixels share: that of their products, and for the instances of conv2d_strip_s8_dsp
 * everything except the loop around it.
 *
 * A strip holds the rows under one row of windows as int16, strip[x][ky][C]: the window of a pixel is one run of it,
 * and the next pixel's begins `pixel` bytes later. For the next row of windows the strip begins one row's channels
 * later: what was row ky + 1 of a column is now row ky, and only new rows are written. Nothing is copied or expanded
 * twice. A strip of whole rows takes much scratch; a strip of a few windows takes little, but is filled again for each
 * part of a row. For 1x1 the strip is a list of pixels (ge_isa_dsp_points.h). Expanding takes 1.8 cycles per input with
 * 16 channels. */
#ifndef GE_ISA_DSP_STRIP_H
#define GE_ISA_DSP_STRIP_H

#include "ge.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

/* Job of a loop of products; the order of its words is that of the frame. */
typedef struct {
    const uint32_t *x;
    int8_t *out;
    const uint32_t *x_end; /* end of the pairs of pixels */
    const uint32_t *w_end; /* end of the groups of four channels */
    const uint32_t *w;     /* for each group: S01, B01, S23, B23, two words for each pair of k, requantization words */
    int32_t zero_point;
    int32_t step; /* bytes from a pixel's outputs to the next pixel's; 0: a lone pixel is given twice */
} ge_dsp_strip_job;

/* The numbers of an instance. */
typedef struct {
    int32_t pixel;    /* bytes from pixel to pixel in the strip */
    int32_t steps;    /* words of a window: pairs of k */
    int32_t channels; /* of the strip; more than the input has where that makes `pixel` a multiple of a word */
    int32_t tile;     /* pixels of a list or windows of a row at a time, even; 0: whole rows */
    int32_t words;    /* words for four channels besides their weights */
    void (*products)(const ge_dsp_strip_job *job);
} ge_dsp_strip;

/* clang-format off */

/* Code of loops over pairs of pixels, two k at a time. Symbols: ge_pixel, the bytes from a word of the first pixel to
 * that of the second; ge_next, from word to word of a pixel; ge_down, 8 - (32 - shift); ge_law. r0 weights, r1 x, r2 r3
 * S01 of the pixels, r4 r5 B01, r6 r7 S23, r8 r9 B23, r10 r11 weights, r12 lr x. */

/* Four channels, whose weights are at r0: the first step begins the sums. */
#define GE_DSP_STRIP_FIRST \
    "    ldr.w r4, [r0, #4]\n" \
    "    ldr.w r6, [r0, #8]\n" \
    "    ldr.w r8, [r0, #12]\n" \
    "    ldr.w r10, [r0, #16]\n" \
    "    ldr.w r11, [r0, #20]\n" \
    "    ldr.w r2, [r0], #24\n" \
    "    ldr.w lr, [r1, #ge_pixel]\n" \
    "    ldr.w r12, [r1], #ge_next\n" \
    "    smlad r3, r10, lr, r2\n" \
    "    smlad r2, r10, r12, r2\n" \
    "    smlad r7, r11, lr, r6\n" \
    "    smlad r6, r11, r12, r6\n" \
    "    sxtb16 r10, r10\n" \
    "    sxtb16 r11, r11\n" \
    "    smlad r5, r10, lr, r4\n" \
    "    smlad r4, r10, r12, r4\n" \
    "    smlad r9, r11, lr, r8\n" \
    "    smlad r8, r11, r12, r8\n"

/* One step: 56 bytes, 15 cycles. */
#define GE_DSP_STRIP_STEP \
    "    ldr.w r11, [r0, #4]\n" \
    "    ldr.w r10, [r0], #8\n" \
    "    ldr.w lr, [r1, #ge_pixel]\n" \
    "    ldr.w r12, [r1], #ge_next\n" \
    "    smlad r2, r10, r12, r2\n" \
    "    smlad r3, r10, lr, r3\n" \
    "    smlad r6, r11, r12, r6\n" \
    "    smlad r7, r11, lr, r7\n" \
    "    sxtb16 r10, r10\n" \
    "    sxtb16 r11, r11\n" \
    "    smlad r4, r10, r12, r4\n" \
    "    smlad r5, r10, lr, r5\n" \
    "    smlad r8, r11, r12, r8\n" \
    "    smlad r9, r11, lr, r9\n"

/* Computes the outputs, at [sp, #48]; restores r1 as before the first step, and sets the flags for the end of the
 * groups. */
#define GE_DSP_STRIP_OUTPUTS(law) \
    "    sub.w r2, r2, r4\n" \
    "    sub.w r3, r3, r5\n" \
    "    sub.w r6, r6, r8\n" \
    "    sub.w r7, r7, r9\n" \
    "    asr.w r2, r2, #ge_down\n" \
    "    asr.w r3, r3, #ge_down\n" \
    "    asr.w r6, r6, #ge_down\n" \
    "    asr.w r7, r7, #ge_down\n" \
    "    .if ge_down < 8\n" \
    "    lsl.w r4, r4, #8-ge_down\n" \
    "    lsl.w r5, r5, #8-ge_down\n" \
    "    lsl.w r8, r8, #8-ge_down\n" \
    "    lsl.w r9, r9, #8-ge_down\n" \
    "    .endif\n" \
    "    .if ge_law == 0\n" \
    "    ldr.w r11, [r0, #4]\n" \
    "    ldr.w r12, [r0, #8]\n" \
    "    ldr.w lr, [r0, #12]\n" \
    "    ldr.w r10, [r0], #16\n" \
    "    ldr.w r1, [sp, #4*5]\n" \
    "    smmlar r2, r2, r10, r1\n" \
    "    smmlar r3, r3, r10, r1\n" \
    "    smmlar r4, r4, r11, r1\n" \
    "    smmlar r5, r5, r11, r1\n" \
    "    smmlar r6, r6, r12, r1\n" \
    "    smmlar r7, r7, r12, r1\n" \
    "    smmlar r8, r8, lr, r1\n" \
    "    smmlar r9, r9, lr, r1\n" \
    "    .endif\n" \
    GE_DSP_LAW_TWO(law, "r0", "r2", "r3", "r10", "r11", "r12") \
    GE_DSP_LAW_TWO(law, "r0", "r4", "r5", "r10", "r11", "r12") \
    GE_DSP_LAW_TWO(law, "r0", "r6", "r7", "r10", "r11", "r12") \
    GE_DSP_LAW_TWO(law, "r0", "r8", "r9", "r10", "r11", "r12") \
    GE_DSP_LAW_SELDOM(law, "r0", "r11", "r12") \
    "    ldr.w r11, [sp, #4*12]\n" \
    "    ldr.w lr, [sp, #4*6]\n" \
    "    ldr.w r10, [sp, #4*3]\n" \
    "    ldr.w r1, [sp, #4*0]\n" \
    "    cmp.w r0, r10\n" /* for the end of this block */ \
    "    add.w r12, r11, lr\n" \
    "    add.w r10, r11, #4\n" \
    "    str.w r10, [sp, #4*12]\n" \
    "    ssat r2, #8, r2\n" \
    "    ssat r3, #8, r3\n" \
    "    ssat r4, #8, r4\n" \
    "    ssat r5, #8, r5\n" \
    "    ssat r6, #8, r6\n" \
    "    ssat r7, #8, r7\n" \
    "    ssat r8, #8, r8\n" \
    "    ssat r9, #8, r9\n" \
    "    strb.w r3, [r12]\n" /* a lone pixel is written last */ \
    "    strb.w r5, [r12, #1]\n" \
    "    strb.w r7, [r12, #2]\n" \
    "    strb.w r9, [r12, #3]\n" \
    "    strb.w r2, [r11]\n" \
    "    strb.w r4, [r11, #1]\n" \
    "    strb.w r6, [r11, #2]\n" \
    "    strb.w r8, [r11, #3]\n"

/* clang-format on */

#define GE_DSP_STRIP_ROWS 8 /* rows of windows until the strip begins again at its start */

/* Computes all channels of `pairs` pairs of pixels. */
static inline void ge_dsp_strip_pairs(const ge_conv2d_params *p, const ge_dsp_strip *s, const uint32_t *w,
                                      const int8_t *strip, int8_t *out, int32_t pairs, int32_t step) {
    const int32_t rest = p->out_c & 3;
    const int32_t words = s->steps * 2 + s->words;
    ge_dsp_strip_job job = {(const uint32_t *)(const void *)strip,
                            out,
                            (const uint32_t *)(const void *)(strip + 2 * pairs * s->pixel),
                            w + (p->out_c >> 2) * words,
                            w,
                            p->out_zero_point,
                            step};
    if (rest != 0) {
        job.w_end = w + words;
        s->products(&job);
        job.w = job.w_end;
        job.w_end += (p->out_c >> 2) * words;
        job.out += rest;
    }
    s->products(&job);
}

/* Computes all channels of `count` pixels. */
__attribute__((unused, noinline)) static void ge_dsp_strip_multiply(const ge_conv2d_params *p, const ge_dsp_strip *s,
                                                                    const uint32_t *w, const void *strip, int8_t *out,
                                                                    int32_t count) {
    const int32_t last = count - 1;
    if (count > 1) {
        ge_dsp_strip_pairs(p, s, w, (const int8_t *)strip, out, count >> 1, p->out_c);
    }
    if ((count & 1) != 0) {
        ge_dsp_strip_pairs(p, s, w, (const int8_t *)strip + last * s->pixel, out + last * p->out_c, 1, 0);
    }
    if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
        ge_dsp_clamp(out, count * p->out_c, p->lo, p->hi);
    }
}

/* Expands `count` pixels of `fours` times four channels to int16. `x_gap`: bytes from the end of a pixel to the next
 * one, `to_gap`: the same in the destination. Cost: 29 cycles for 16 channels, 26 for 8. */
static inline void ge_dsp_strip_expand(const int8_t *x, int32_t x_gap, int32_t fours, int32_t count, int32_t to_gap,
                                       int16_t *to) {
    uint32_t a, b, c, d, t, n;
    __asm__ volatile("    .balign 4\n"
                     "    ands.w %[n], %[fours], #3\n"
                     "    bne.w 3f\n"
                     "1:\n"
                     "    mov.w %[n], %[fours]\n"
                     "2:\n"
                     "    ldr.w %[b], [%[x], #4]\n"
                     "    ldr.w %[c], [%[x], #8]\n"
                     "    ldr.w %[d], [%[x], #12]\n"
                     "    ldr.w %[a], [%[x]], #16\n"
                     "    sxtb16 %[t], %[a]\n"
                     "    sxtb16 %[a], %[a], ror #8\n"
                     "    str.w %[a], [%[to], #4]\n"
                     "    str.w %[t], [%[to]], #8\n"
                     "    sxtb16 %[t], %[b]\n"
                     "    sxtb16 %[b], %[b], ror #8\n"
                     "    str.w %[b], [%[to], #4]\n"
                     "    str.w %[t], [%[to]], #8\n"
                     "    sxtb16 %[t], %[c]\n"
                     "    sxtb16 %[c], %[c], ror #8\n"
                     "    str.w %[c], [%[to], #4]\n"
                     "    str.w %[t], [%[to]], #8\n"
                     "    sxtb16 %[t], %[d]\n"
                     "    sxtb16 %[d], %[d], ror #8\n"
                     "    str.w %[d], [%[to], #4]\n"
                     "    str.w %[t], [%[to]], #8\n"
                     "    subs.w %[n], %[n], #4\n"
                     "    bne.w 2b\n"
                     "    subs.w %[count], %[count], #1\n"
                     "    add.w %[x], %[x], %[x_gap]\n"
                     "    add.w %[to], %[to], %[to_gap]\n"
                     "    bne.w 1b\n"
                     "    b.w 5f\n"
                     "3:\n"
                     "    mov.w %[n], %[fours]\n"
                     "4:\n"
                     "    ldr.w %[a], [%[x]], #4\n"
                     "    subs.w %[n], %[n], #1\n"
                     "    sxtb16 %[t], %[a]\n"
                     "    sxtb16 %[a], %[a], ror #8\n"
                     "    str.w %[a], [%[to], #4]\n"
                     "    str.w %[t], [%[to]], #8\n"
                     "    bne.w 4b\n"
                     "    subs.w %[count], %[count], #1\n"
                     "    add.w %[x], %[x], %[x_gap]\n"
                     "    add.w %[to], %[to], %[to_gap]\n"
                     "    bne.w 3b\n"
                     "5:\n"
                     : [x] "+&r"(x), [to] "+&r"(to), [count] "+&r"(count), [n] "=&r"(n), [a] "=&r"(a), [b] "=&r"(b),
                       [c] "=&r"(c), [d] "=&r"(d), [t] "=&r"(t)
                     : [fours] "r"(fours), [x_gap] "r"(x_gap), [to_gap] "r"(to_gap)
                     : "cc", "memory");
}

/* Does the same with the channels in their original order, and reads no byte beyond the last one. */
static inline void ge_dsp_strip_bytes(const int8_t *x, int32_t step, int32_t channels, int32_t count, int32_t pitch,
                                      int16_t *to) {
    for (int32_t i = 0; i < count; i++) {
        if (channels == 3) {
            const int8_t a = x[0]; /* the loads are grouped: the compiler would keep the order of loads and stores */
            const int8_t b = x[1];
            const int8_t c = x[2];
            to[0] = a;
            to[1] = b;
            to[2] = c;
        } else {
            for (int32_t c = 0; c < channels; c++) {
                to[c] = x[c];
            }
        }
        x += step;
        to += pitch / 2;
    }
}

/* Expands one pixel of `channels` channels in the order of ge_dsp_strip_expand; only the first `inside` of them
 * exist. */
static inline void ge_dsp_strip_last(const int8_t *x, int32_t inside, int32_t channels, int16_t *to) {
    for (int32_t c = 0; c < channels; c++) {
        const int32_t from = (c & ~3) + (c >> 1 & 1) + (c << 1 & 2);
        to[c] = from < inside ? x[from] : 0;
    }
}

/* Expands `count` pixels from `x` on, a column of the strip apart. Where the strip has more channels than the input,
 * the additional ones are those of the next pixel and are multiplied by weights of 0; the last pixel has no next
 * one. */
__attribute__((unused, noinline)) static void ge_dsp_strip_pixels(const ge_conv2d_params *p, const ge_dsp_strip *s,
                                                                  const int8_t *x, int32_t count, int16_t *to) {
    const int32_t step = p->in_c;
    const int32_t pitch = 2 * p->kernel_h * s->channels;
    const int32_t fours = s->channels / 4;
    if (s->channels % 4 != 0) {
        ge_dsp_strip_bytes(x, step, p->in_c, count, pitch, to);
        return;
    }
    const int32_t dense = step == s->channels && pitch == 2 * step;
    const int32_t lone = s->channels != p->in_c; /* the last pixel is expanded separately */
    if (lone) {
        ge_dsp_strip_last(x + (count - 1) * step, p->in_c, s->channels, to + (count - 1) * (pitch / 2));
    }
    if (count > lone) {
        ge_dsp_strip_expand(x, dense ? 0 : step - 4 * fours, dense ? count * fours : fours, dense ? 1 : count - lone,
                            dense ? 0 : pitch - 8 * fours, to);
    }
}

/* Writes `count` columns of padding in one row of the strip. */
__attribute__((unused, noinline)) static void ge_dsp_strip_fill(const ge_conv2d_params *p, const ge_dsp_strip *s,
                                                                int32_t count, int16_t *to) {
    const int32_t channels = s->channels;
    const int32_t pitch = p->kernel_h * channels;
    const int16_t zero = (int16_t)p->in_zero_point;
    for (; count > 0; count--) {
        if (channels % 4 == 0) {
            const uint32_t both = ((uint32_t)zero & 0xFFFFu) | (uint32_t)zero << 16;
            ge_word *const words = (ge_word *)(void *)to;
            for (int32_t c = 0; c < channels / 2; c += 2) {
                words[c] = both;
                words[c + 1] = both;
            }
        } else {
            for (int32_t c = 0; c < channels; c++) {
                to[c] = zero;
            }
        }
        to += pitch;
    }
}

/* Writes an input row, or padding where it is NULL, as one row of the strip: `columns` from column ix on, some of which
 * may lie in padding. */
__attribute__((unused, noinline)) static void ge_dsp_strip_row(const ge_conv2d_params *p, const ge_dsp_strip *s,
                                                               const int8_t *x, int32_t ix, int32_t columns,
                                                               int16_t *to) {
    if (x != NULL) {
        const int32_t left = ix < 0 ? (-ix < columns ? -ix : columns) : 0;
        ge_dsp_strip_fill(p, s, left, to);
        ix += left;
        columns -= left;
        to += left * p->kernel_h * s->channels;
        const int32_t inside = columns < p->in_w - ix ? columns : p->in_w - ix;
        if (inside > 0) {
            ge_dsp_strip_pixels(p, s, x + ix * p->in_c, inside, to);
            columns -= inside;
            to += inside * p->kernel_h * s->channels;
        }
    }
    ge_dsp_strip_fill(p, s, columns, to);
}

/* Returns input row iy, or NULL where it is padding. */
static inline const int8_t *ge_dsp_strip_line(const ge_conv2d_params *p, const ge_rows *x, int32_t iy) {
    return iy >= 0 && iy < p->in_h ? (const int8_t *)ge_row(x, iy) : NULL;
}

/* Computes windows of more than one tap, a few of a row at a time. */
__attribute__((unused, noinline)) static void ge_dsp_strip_parts(const ge_conv2d_params *p, const ge_dsp_strip *s,
                                                                 const ge_rows *x, const uint32_t *stream,
                                                                 const ge_rows *out, int32_t first, int32_t last,
                                                                 int16_t *strip) {
    for (int32_t y = first; y < last; y++) {
        const int32_t iy = y * p->stride_h - p->pad_top;
        for (int32_t ox = 0; ox < p->out_w; ox += s->tile) {
            const int32_t count = p->out_w - ox < s->tile ? p->out_w - ox : s->tile;
            const int32_t columns = (count - 1) * p->stride_w + p->kernel_w;
            for (int32_t ky = 0; ky < p->kernel_h; ky++) {
                ge_dsp_strip_row(p, s, ge_dsp_strip_line(p, x, iy + ky), ox * p->stride_w - p->pad_left, columns,
                                 strip + ky * s->channels);
            }
            ge_dsp_strip_multiply(p, s, stream, strip, (int8_t *)ge_row(out, y) + ox * p->out_c, count);
        }
    }
}

/* Computes windows of more than one tap, row by row. */
__attribute__((unused, noinline)) static void ge_dsp_strip_windows(const ge_conv2d_params *p, const ge_dsp_strip *s,
                                                                   const ge_rows *x, const uint32_t *stream,
                                                                   const ge_rows *out, int32_t first, int32_t last,
                                                                   int16_t *start) {
    const int32_t columns = (p->out_w - 1) * p->stride_w + p->kernel_w;
    int16_t *strip = start;
    for (int32_t y = first; y < last; y++) {
        const int32_t again = (y - first) % GE_DSP_STRIP_ROWS == 0 || p->stride_h >= p->kernel_h;
        strip = again ? start : strip + p->stride_h * s->channels;
        for (int32_t ky = again ? 0 : p->kernel_h - p->stride_h; ky < p->kernel_h; ky++) {
            ge_dsp_strip_row(p, s, ge_dsp_strip_line(p, x, y * p->stride_h - p->pad_top + ky), -p->pad_left, columns,
                             strip + ky * s->channels);
        }
        ge_dsp_strip_multiply(p, s, stream, strip, (int8_t *)ge_row(out, y), p->out_w);
    }
}

#endif
