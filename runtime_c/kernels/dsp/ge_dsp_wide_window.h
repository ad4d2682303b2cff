/* Code that the int16 convolutions of Cortex-M4, M7 and M33 share: windows as columns.
 *
 * The windows of two pixels are interleaved: word i of the first, word i of the second, where a word is two
 * neighbouring k. So a loop reads all four operands of a step through one pointer, and the same loop serves any stride,
 * dilation, padding and group. Cost: about 1.4 cycles per value of a window. */
#ifndef GE_DSP_WIDE_WINDOW_H
#define GE_DSP_WIDE_WINDOW_H

#include "ge.h"
#include "ge_dsp_wide.h"
#include "ge_params.h"

/* Returns the address of half-word h of a window. */
static inline int16_t *ge_dsp_wide_half(uint32_t *to, int32_t h) {
    return (int16_t *)(void *)to + (h >> 1) * 4 + (h & 1);
}

/* Copies `count` words of one window. */
static inline void ge_dsp_wide_words(const int16_t *x, int32_t count, uint32_t *to) {
    uint32_t a, b, c, d;
    for (; count >= 4; count -= 4) {
        memcpy(&a, x, 4);
        memcpy(&b, x + 2, 4);
        memcpy(&c, x + 4, 4);
        memcpy(&d, x + 6, 4);
        to[0] = a;
        to[2] = b;
        to[4] = c;
        to[6] = d;
        x += 8;
        to += 8;
    }
    for (; count > 0; count--) {
        memcpy(to, x, 4);
        x += 2;
        to += 2;
    }
}

/* Copies `count` inputs to half-words h, h + 1 ... of a window. */
static inline void ge_dsp_wide_put(const int16_t *x, int32_t count, uint32_t *to, int32_t h) {
    if ((h & 1) != 0 && count > 0) {
        *ge_dsp_wide_half(to, h) = *x++;
        h++;
        count--;
    }
    ge_dsp_wide_words(x, count >> 1, to + (h >> 1) * 2);
    if ((count & 1) != 0) {
        *ge_dsp_wide_half(to, h + count - 1) = x[count - 1];
    }
}

/* Writes the same number `count` times. */
static inline void ge_dsp_wide_fill(int32_t value, int32_t count, uint32_t *to, int32_t h) {
    const uint32_t both = ((uint32_t)value & 0xFFFFu) | (uint32_t)value << 16;
    const int32_t end = h + count;
    if ((h & 1) != 0 && h < end) {
        *ge_dsp_wide_half(to, h++) = (int16_t)value;
    }
    for (; h + 1 < end; h += 2) {
        to[h] = both; /* word h / 2 of a window is word h of two */
    }
    if (h < end) {
        *ge_dsp_wide_half(to, h) = (int16_t)value;
    }
}

/* The rows of a window: the first one is input row `top`, and rows first..last-1 of it exist. */
typedef struct {
    int32_t top, first, last;
} ge_dsp_wide_inner;

static inline ge_dsp_wide_inner ge_dsp_wide_inner_rows(const ge_conv2d_s16_params *p, int32_t y) {
    ge_dsp_wide_inner rows = {y * p->stride_h - p->pad_top, 0, p->kernel_h};
    while (rows.first < rows.last && rows.top + rows.first * p->dilation_h < 0) {
        rows.first++;
    }
    while (rows.last > rows.first && rows.top + (rows.last - 1) * p->dilation_h >= p->in_h) {
        rows.last--;
    }
    return rows;
}

/* Copies `count` rows of a window: `run` half-words each, an even number; the rows lie `step` bytes apart. */
static inline void ge_dsp_wide_rows(const int16_t *from, int32_t step, int32_t count, int32_t run, uint32_t *to) {
    for (; count > 0; count--) {
        if (run == 4) {
            memcpy(to, from, 4);
            memcpy(to + 2, from + 2, 4);
        } else {
            ge_dsp_wide_words(from, run / 2, to);
        }
        from = (const int16_t *)(const void *)((const uint8_t *)from + step);
        to += run;
    }
}

/* Copies a window whose columns all exist, from half-word `at` of each row on: `run` half-words, an even number. */
static inline void ge_dsp_wide_inside(const ge_conv2d_s16_params *p, const ge_rows *x, int32_t y, int32_t at,
                                      int32_t run, uint32_t *to) {
    const ge_dsp_wide_inner rows = ge_dsp_wide_inner_rows(p, y);
    const int32_t dilation = p->dilation_h, count = x->slots == NULL ? rows.last - rows.first : 1;
    ge_dsp_wide_fill(p->in_zero_point, rows.first * run, to, 0);
    for (int32_t ky = rows.first; ky < rows.last; ky += count) {
        const int16_t *const from = (const int16_t *)ge_row(x, rows.top + ky * dilation) + at;
        ge_dsp_wide_rows(from, dilation * x->stride, count, run, to + ky * run);
    }
    ge_dsp_wide_fill(p->in_zero_point, (p->kernel_h - rows.last) * run, to, rows.last * run);
}

#define GE_DSP_WIDE_SHORT 8 /* half-words of a row that are copied word by word where some are padding */

/* Copies one word of each of `count` rows of a window with `run` half-words, `step` bytes apart. known: bit 0 and 1 are
 * 1 where its half-words are in the input; the others are those of `padding`. */
static inline void ge_dsp_wide_edge_word(const int16_t *from, int32_t step, int32_t count, uint32_t known,
                                         uint32_t padding, int32_t run, uint32_t *to) {
    const int32_t shift = known == 2u ? 16 : 0;
    const uint32_t kept = padding & (known == 2u ? 0xFFFFu : 0xFFFF0000u);
    uint32_t word = padding;
    from += known == 2u;
    for (; count > 0; count--) {
        if (known == 3u) {
            memcpy(&word, from, 4);
        } else if (known != 0u) {
            word = kept | (uint32_t)(uint16_t)*from << shift;
        }
        *to = word;
        from = (const int16_t *)(const void *)((const uint8_t *)from + step);
        to += run;
    }
}

/* Copies a window of short rows of `run` half-words, an even number, of which half-word i is in the input if bit i of
 * `known` is 1. */
static inline void ge_dsp_wide_edge(const ge_conv2d_s16_params *p, const ge_rows *x, int32_t y, int32_t at, int32_t run,
                                    uint32_t known, uint32_t *to) {
    const ge_dsp_wide_inner rows = ge_dsp_wide_inner_rows(p, y);
    const uint32_t zero = (uint32_t)p->in_zero_point & 0xFFFFu, padding = zero << 16 | zero;
    const int32_t dilation = p->dilation_h, count = x->slots == NULL ? rows.last - rows.first : 1;
    ge_dsp_wide_fill(p->in_zero_point, rows.first * run, to, 0);
    for (int32_t ky = rows.first; ky < rows.last; ky += count) {
        const int16_t *const from = (const int16_t *)ge_row(x, rows.top + ky * dilation) + at;
        for (int32_t i = 0; i < run; i += 2) {
            ge_dsp_wide_edge_word(from + i, dilation * x->stride, count, known >> i & 3u, padding, run,
                                  to + ky * run + i);
        }
    }
    ge_dsp_wide_fill(p->in_zero_point, (p->kernel_h - rows.last) * run, to, rows.last * run);
}

/* Copies the window of output (y, ox) in the `depth` channels from c0 on; an odd number of half-words is followed by a
 * 0. */
__attribute__((unused, noinline)) static void ge_dsp_wide_window(const ge_conv2d_s16_params *p, const ge_rows *x,
                                                                 int32_t y, int32_t ox, int32_t c0, int32_t depth,
                                                                 uint32_t *to) {
    const int32_t ix = ox * p->stride_w - p->pad_left;
    const int32_t run = p->kernel_w * depth;
    const int32_t touching = p->dilation_w == 1 && depth == p->in_c;
    const int32_t outside = ix + p->kernel_w - p->in_w; /* taps in padding on the right */
    const int32_t left = ix >= 0 ? 0 : (-ix < p->kernel_w ? -ix : p->kernel_w) * depth;
    const int32_t right = outside <= 0 ? 0 : (outside < p->kernel_w ? outside : p->kernel_w) * depth;
    int32_t h = 0;
    if (touching && left + right + (run & 1) == 0) {
        ge_dsp_wide_inside(p, x, y, ix * depth, run, to);
        return;
    }
    if (touching && run <= GE_DSP_WIDE_SHORT && (run & 1) == 0) {
        const uint32_t known = left + right < run ? ((1u << (run - right)) - 1u) >> left << left : 0u;
        ge_dsp_wide_edge(p, x, y, ix * depth, run, known, to);
        return;
    }
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h) {
            ge_dsp_wide_fill(p->in_zero_point, run, to, h);
        } else if (touching) {
            const int16_t *const row = (const int16_t *)ge_row(x, iy) + ix * depth;
            if (run <= GE_DSP_WIDE_SHORT) {
                for (int32_t i = 0; i < run; i++) {
                    *ge_dsp_wide_half(to, h + i) = i >= left && i < run - right ? row[i] : (int16_t)p->in_zero_point;
                }
            } else if (left + right < run) {
                ge_dsp_wide_put(row + left, run - left - right, to, h + left);
                ge_dsp_wide_fill(p->in_zero_point, left, to, h);
                ge_dsp_wide_fill(p->in_zero_point, right, to, h + run - right);
            } else {
                ge_dsp_wide_fill(p->in_zero_point, run, to, h);
            }
        } else {
            const int16_t *const row = (const int16_t *)ge_row(x, iy) + c0;
            for (int32_t kx = 0; kx < p->kernel_w; kx++) {
                const int32_t at = ix + kx * p->dilation_w;
                if (at >= 0 && at < p->in_w) {
                    ge_dsp_wide_put(row + at * p->in_c, depth, to, h + kx * depth);
                } else {
                    ge_dsp_wide_fill(p->in_zero_point, depth, to, h + kx * depth);
                }
            }
        }
        h += run;
    }
    if ((h & 1) != 0) {
        *ge_dsp_wide_half(to, h) = 0;
    }
}

/* Returns whether windows are pixels with a multiple of eight channels, without padding. */
static inline int32_t ge_dsp_wide_are_points(const ge_conv2d_s16_params *p) {
    return p->kernel_h * p->kernel_w == 1 && p->pad_top == 0 && p->pad_left == 0 && p->in_c / p->groups % 8 == 0 &&
           (p->out_h - 1) * p->stride_h < p->in_h && (p->out_w - 1) * p->stride_w < p->in_w;
}

/* Copies the channels of two pixels, which are a multiple of four aligned words: 23 cycles for 16 values. */
__attribute__((unused, noinline)) static void ge_dsp_wide_points(const int16_t *a, const int16_t *b, int32_t words,
                                                                 uint32_t *to) {
    register const int16_t *r0 __asm__("r0") = a, *r1 __asm__("r1") = b; /* named: -O0 finds no four registers */
    register uint32_t *r12 __asm__("r12") = to;
    register int32_t r11 __asm__("r11") = words;
    __asm__ volatile("    .balign 4\n"
                     "1:\n"
                     "    ldm.w r0!, {r2, r4, r6, r9}\n"
                     "    ldm.w r1!, {r3, r5, r8, r10}\n"
                     "    subs.w r11, r11, #4\n"
                     "    stm.w r12!, {r2, r3, r4, r5, r6, r8, r9, r10}\n"
                     "    bne.w 1b\n"
                     : "+r"(r0), "+r"(r1), "+r"(r12), "+r"(r11)
                     :
                     : "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "cc", "memory");
}

/* Clamps rows of the output to the bounds of the activation. relu: whether they are saturated to 0..32767 already. */
static inline void ge_dsp_wide_bounds(const ge_conv2d_s16_params *p, const ge_rows *out, int32_t first, int32_t last,
                                      int32_t relu) {
    if (!relu && (p->lo > INT16_MIN || p->hi < INT16_MAX)) {
        for (int32_t y = first; y < last; y++) {
            ge_dsp_wide_clamp((int16_t *)ge_row(out, y), p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}

#endif
