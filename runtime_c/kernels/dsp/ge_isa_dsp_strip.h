/* What the instances of conv2d_strip_s8_dsp share: all but the loop of products, which each of them has as its own.
 *
 * A strip holds the rows under one row of windows as int16, strip[x][ky][C]: the window of a pixel is one run of it, and
 * the next pixel's begins `pixel` bytes later. For the next row of windows the strip begins a row's channels later: what was
 * row ky + 1 of a column is now row ky, and only new rows are written. Nothing is copied or expanded twice.
 * A strip of whole rows takes much scratch; one of a few windows at a time takes little, but begins anew with each of its
 * parts. For 1x1 the strip is a list of pixels, across row ends where rows follow each other.
 * Expanding takes 1.5 cycles for each input of 1x1, 1.8 of other windows with 16 channels. */
#ifndef GE_ISA_DSP_STRIP_H
#define GE_ISA_DSP_STRIP_H

#include "ge.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

/* What a loop of products reads; the order of the words is that of the frame. */
typedef struct {
    const uint32_t *x;
    int8_t *out;
    const uint32_t *x_end; /* of the pairs of pixels */
    const uint32_t *w_end; /* of the groups of four channels */
    const uint32_t *w;     /* for each group: S01, B01, S23, B23, two words for each pair of k, words of the law */
    int32_t zero_point;
    int32_t step; /* bytes from a pixel's outputs to the next's; 0: a lone pixel is given twice */
} ge_dsp_strip_job;

/* An instance. */
typedef struct {
    int32_t pixel;    /* bytes from pixel to pixel in the strip */
    int32_t steps;    /* words of a window: pairs of k */
    int32_t channels; /* of the strip; more than the input has where that makes `pixel` whole words */
    int32_t tile;     /* pixels of a list or windows of a row at a time, even; 0: whole rows */
    int32_t words;    /* of four channels besides their weights */
    void (*products)(const ge_dsp_strip_job *job);
} ge_dsp_strip;

#define GE_DSP_STRIP_ROWS 8 /* rows of windows before the strip begins again at its start */

/* All channels of `pairs` pairs of pixels. */
static inline void ge_dsp_strip_pairs(const ge_conv2d_params *p, const ge_dsp_strip *s, const uint32_t *w,
                                      const uint32_t *strip, int8_t *out, int32_t pairs, int32_t step) {
    const int32_t rest = p->out_c & 3;
    const int32_t words = s->steps * 2 + s->words;
    ge_dsp_strip_job job = {strip, out, strip + pairs * s->pixel / 2, w + p->out_c / 4 * words, w, p->out_zero_point,
                            step};
    if (rest != 0) {
        job.w_end = w + words;
        s->products(&job);
        job.w = job.w_end;
        job.w_end += p->out_c / 4 * words;
        job.out += rest;
    }
    s->products(&job);
}

/* All channels of `count` pixels. */
__attribute__((unused, noinline)) static void ge_dsp_strip_multiply(const ge_conv2d_params *p, const ge_dsp_strip *s,
                                                                    const uint32_t *w, const uint32_t *strip,
                                                                    int8_t *out, int32_t count) {
    const int32_t last = count - 1;
    if (count > 1) {
        ge_dsp_strip_pairs(p, s, w, strip, out, count / 2, p->out_c);
    }
    if ((count & 1) != 0) {
        ge_dsp_strip_pairs(p, s, w, strip + last * s->pixel / 4, out + last * p->out_c, 1, 0);
    }
    if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
        ge_dsp_clamp(out, count * p->out_c, p->lo, p->hi);
    }
}

/* `count` pixels of `fours` times four channels, as int16. `x_gap`: bytes from the end of a pixel to the next one, `to_gap`:
 * likewise where they are written. 29 cycles for 16 channels, 26 for 8. */
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

/* The same with the channels in their order, no byte behind the last read. */
static inline void ge_dsp_strip_bytes(const int8_t *x, int32_t step, int32_t channels, int32_t count, int32_t pitch,
                                      int16_t *to) {
    for (int32_t i = 0; i < count; i++) {
        if (channels == 3) {
            to[0] = x[0];
            to[1] = x[1];
            to[2] = x[2];
        } else {
            for (int32_t c = 0; c < channels; c++) {
                to[c] = x[c];
            }
        }
        x += step;
        to += pitch / 2;
    }
}

/* One pixel of `channels` channels as ge_dsp_strip_expand orders them, of which the first `inside` are there. */
static inline void ge_dsp_strip_last(const int8_t *x, int32_t inside, int32_t channels, int16_t *to) {
    for (int32_t c = 0; c < channels; c++) {
        const int32_t from = (c & ~3) + (c >> 1 & 1) + (c << 1 & 2);
        to[c] = from < inside ? x[from] : 0;
    }
}

/* `count` pixels from `x` on, one tap of each row of windows apart. Where the strip has more channels than the input, these
 * are of the next pixel and meet weights of 0; the last pixel has no next. */
__attribute__((unused, noinline)) static void ge_dsp_strip_pixels(const ge_conv2d_params *p, const ge_dsp_strip *s,
                                                                  const int8_t *x, int32_t count, int16_t *to) {
    const int32_t step = p->kernel_h * p->kernel_w == 1 ? p->stride_w * p->in_c : p->in_c;
    const int32_t pitch = 2 * p->kernel_h * s->channels;
    const int32_t fours = s->channels / 4;
    if (s->channels % 4 != 0) {
        ge_dsp_strip_bytes(x, step, p->in_c, count, pitch, to);
        return;
    }
    const int32_t dense = step == s->channels && pitch == 2 * step;
    const int32_t lone = s->channels != p->in_c; /* the last pixel goes by itself */
    if (lone) {
        ge_dsp_strip_last(x + (count - 1) * step, p->in_c, s->channels, to + (count - 1) * (pitch / 2));
    }
    if (count > lone) {
        ge_dsp_strip_expand(x, dense ? 0 : step - 4 * fours, dense ? count * fours : fours, dense ? 1 : count - lone,
                            dense ? 0 : pitch - 8 * fours, to);
    }
}

/* `count` columns of padding in one row of the strip. */
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

/* A row of the input, NULL for one of padding, as one row of the strip: `columns` from column ix on, which may lie in padding. */
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

/* Input row iy, NULL where it is padding. */
static inline const int8_t *ge_dsp_strip_line(const ge_conv2d_params *p, const ge_rows *x, int32_t iy) {
    return iy >= 0 && iy < p->in_h ? (const int8_t *)ge_row(x, iy) : NULL;
}

/* Windows of more than one tap, a few of a row at a time. */
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
            ge_dsp_strip_multiply(p, s, stream, (const uint32_t *)(const void *)strip,
                                  (int8_t *)ge_row(out, y) + ox * p->out_c, count);
        }
    }
}

/* Windows of more than one tap: row by row. */
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
        ge_dsp_strip_multiply(p, s, stream, (const uint32_t *)(const void *)strip, (int8_t *)ge_row(out, y), p->out_w);
    }
}

/* 1x1 without padding: a list of pixels at a time. */
__attribute__((unused, noinline)) static void ge_dsp_strip_points(const ge_conv2d_params *p, const ge_dsp_strip *s,
                                                                  const ge_rows *x, const uint32_t *stream,
                                                                  const ge_rows *out, int32_t first, int32_t last,
                                                                  int16_t *strip) {
    const int32_t step = p->stride_w * p->in_c;
    const int32_t together = x->slots == NULL && out->slots == NULL && x->stride * p->stride_h == p->out_w * step &&
                             out->stride == p->out_w * p->out_c;
    const int32_t pixels = together ? (last - first) * p->out_w : p->out_w;
    for (int32_t y = first; y < last; y = together ? last : y + 1) {
        const int8_t *from = (const int8_t *)ge_row(x, y * p->stride_h);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t done = 0; done < pixels; done += s->tile) {
            const int32_t count = pixels - done < s->tile ? pixels - done : s->tile;
            ge_dsp_strip_pixels(p, s, from, count, strip);
            ge_dsp_strip_multiply(p, s, stream, (const uint32_t *)(const void *)strip, o, count);
            from += count * step;
            o += count * p->out_c;
        }
    }
}

#endif
