/* Code that the pools of Cortex-M4, M7 and M33 share, for windows whose taps are adjacent: the part of a window that
 * lies in the image, and sums of channels.
 *
 * SXTAB16 adds two channels at a time in half-words, sixteen channels per pass where there are as many, in eight words
 * of sums. After at most 256 elements, so that no half-word overflows, they are added to 32-bit sums. */
#ifndef GE_DSP_POOL_H
#define GE_DSP_POOL_H

#include "ge.h"

/* Rows and columns first..last-1 of a window that lie inside the input. */
typedef struct {
    int32_t top, bottom, left, right;
} ge_dsp_window;

static inline ge_dsp_window ge_dsp_window_of(int32_t y, int32_t x, int32_t kernel_h, int32_t kernel_w, int32_t in_h,
                                             int32_t in_w) {
    ge_dsp_window w;
    w.top = y < 0 ? 0 : y;
    w.bottom = y + kernel_h < in_h ? y + kernel_h : in_h;
    w.left = x < 0 ? 0 : x;
    w.right = x + kernel_w < in_w ? x + kernel_w : in_w;
    return w;
}

/* Returns the larger of each pair of four bytes. */
static inline uint32_t ge_dsp_larger(uint32_t a, uint32_t b) {
    uint32_t larger;
    __asm__("ssub8 %[r], %[a], %[b]\n\tsel %[r], %[a], %[b]" : [r] "=&r"(larger) : [a] "r"(a), [b] "r"(b) : "cc");
    return larger;
}

#define GE_DSP_POOL_RUN 256 /* elements whose sum fits a half-word */

/* Adds `count` elements, `step` bytes apart, of sixteen channels. */
__attribute__((unused, noinline)) static void ge_dsp_add_sixteen(const int8_t *x, int32_t step, int32_t count,
                                                                 int32_t *sums) {
    int32_t a0 = 0, a1 = 0, b0 = 0, b1 = 0, c0 = 0, c1 = 0, d0 = 0, d1 = 0;
    do {
        int32_t s, t; /* two statements: without optimization gcc has no registers for all at once */
        __asm__("    ldr.w %[s], [%[x]]\n"
                "    ldr.w %[t], [%[x], #4]\n"
                "    sxtab16 %[a0], %[a0], %[s]\n"
                "    sxtab16 %[a1], %[a1], %[s], ror #8\n"
                "    sxtab16 %[b0], %[b0], %[t]\n"
                "    sxtab16 %[b1], %[b1], %[t], ror #8\n"
                : [a0] "+&r"(a0), [a1] "+&r"(a1), [b0] "+&r"(b0), [b1] "+&r"(b1), [s] "=&r"(s), [t] "=&r"(t)
                : [x] "r"(x)
                : "memory");
        __asm__("    ldr.w %[s], [%[x], #8]\n"
                "    ldr.w %[t], [%[x], #12]\n"
                "    sxtab16 %[c0], %[c0], %[s]\n"
                "    sxtab16 %[c1], %[c1], %[s], ror #8\n"
                "    sxtab16 %[d0], %[d0], %[t]\n"
                "    sxtab16 %[d1], %[d1], %[t], ror #8\n"
                : [c0] "+&r"(c0), [c1] "+&r"(c1), [d0] "+&r"(d0), [d1] "+&r"(d1), [s] "=&r"(s), [t] "=&r"(t)
                : [x] "r"(x)
                : "memory");
        x += step;
        count--;
    } while (count > 0);
    const int32_t halves[8] = {a0, a1, b0, b1, c0, c1, d0, d1};
    for (int32_t i = 0; i < 8; i++) {
        int32_t *const to = sums + (i >> 1) * 4 + (i & 1);
        to[0] += (int16_t)halves[i];
        to[2] += halves[i] >> 16;
    }
}

/* Does the same for four channels. */
static inline void ge_dsp_add_four(const int8_t *x, int32_t step, int32_t count, int32_t *sums) {
    int32_t even = 0, odd = 0;
    do {
        int32_t s;
        __asm__("    ldr.w %[s], [%[x]]\n"
                "    sxtab16 %[even], %[even], %[s]\n"
                "    sxtab16 %[odd], %[odd], %[s], ror #8\n"
                : [even] "+&r"(even), [odd] "+&r"(odd), [s] "=&r"(s)
                : [x] "r"(x)
                : "memory");
        x += step;
        count--;
    } while (count > 0);
    sums[0] += (int16_t)even;
    sums[1] += (int16_t)odd;
    sums[2] += even >> 16;
    sums[3] += odd >> 16;
}

/* Adds `count` elements, at most GE_DSP_POOL_RUN, of all channels, which are contiguous. */
static inline void ge_dsp_add_channels(const int8_t *x, int32_t channels, int32_t count, int32_t *sums) {
    int32_t c = 0;
    for (; c + 16 <= channels; c += 16) {
        ge_dsp_add_sixteen(x + c, channels, count, sums + c);
    }
    for (; c + 4 <= channels; c += 4) {
        ge_dsp_add_four(x + c, channels, count, sums + c);
    }
    for (const int32_t end = c + (channels & 3); c < end; c++) { /* otherwise gcc 12 assumes that c may overflow
                                                                  * int32 */
        for (int32_t i = 0; i < count; i++) {
            sums[c] += x[i * channels + c];
        }
    }
}

/* Adds any number `count` of elements of all channels, which are contiguous. */
static inline void ge_dsp_add_long(const int8_t *x, int32_t channels, int32_t count, int32_t *sums) {
    for (int32_t done = 0; done < count; done += GE_DSP_POOL_RUN) {
        const int32_t left = count - done;
        ge_dsp_add_channels(x + done * channels, channels, left < GE_DSP_POOL_RUN ? left : GE_DSP_POOL_RUN, sums);
    }
}

/* y = ssat8(((((sum - zero) << left) * multiplier + 2^31) >> 32) + zero_point) of each channel. */
static inline void ge_dsp_means(const int32_t *sums, int32_t channels, int32_t zero, int32_t left, int32_t multiplier,
                                int32_t zero_point, int8_t *o) {
    const int32_t *const end = sums + channels;
    int32_t y;
    __asm__ volatile("    .balign 4\n"
                     "1:\n"
                     "    ldr %[y], [%[sums]], #4\n"
                     "    sub.w %[y], %[y], %[zero]\n"
                     "    lsl.w %[y], %[y], %[left]\n"
                     "    smmlar %[y], %[y], %[m], %[zp]\n"
                     "    ssat %[y], #8, %[y]\n"
                     "    cmp.w %[sums], %[end]\n"
                     "    strb %[y], [%[o]], #1\n"
                     "    bne.n 1b\n"
                     : [sums] "+&r"(sums), [o] "+&r"(o), [y] "=&r"(y)
                     : [zero] "r"(zero), [left] "r"(left), [m] "r"(multiplier), [zp] "r"(zero_point), [end] "r"(end)
                     : "cc", "memory");
}

#define GE_DSP_POOL_SMALL 32 /* elements of a window that is summed at once */

/* Sums the channels of all elements of a window. Rows that are contiguous, as in a mean over the image, are taken
 * together. */
static inline void ge_dsp_sums(const ge_rows *x, const ge_dsp_window *w, int32_t in_w, int32_t channels,
                               int32_t *sums) {
    const int32_t whole = w->right - w->left == in_w && x->slots == NULL && x->stride == in_w * channels;
    const int32_t rows = whole ? 1 : w->bottom - w->top;
    const int32_t length = (w->right - w->left) * (whole ? w->bottom - w->top : 1);
    memset(sums, 0, (size_t)channels * sizeof *sums);
    for (int32_t y = w->top; y < w->top + rows; y++) {
        const int8_t *from = (const int8_t *)ge_row(x, y) + w->left * channels;
        ge_dsp_add_long(from, channels, length, sums);
    }
}

/* Sums four channels of all elements of a window that has at most 256 of them. */
static inline void ge_dsp_small_sums(const ge_rows *x, const ge_dsp_window *w, int32_t channels, int32_t channel,
                                     int32_t *sums) {
    int32_t even = 0, odd = 0;
    for (int32_t y = w->top; y < w->bottom; y++) {
        const int8_t *from = (const int8_t *)ge_row(x, y) + w->left * channels + channel;
        for (int32_t i = w->left; i < w->right; i++) {
            int32_t s;
            __asm__("    ldr.w %[s], [%[from]]\n"
                    "    add.w %[from], %[from], %[step]\n"
                    "    sxtab16 %[even], %[even], %[s]\n"
                    "    sxtab16 %[odd], %[odd], %[s], ror #8\n"
                    : [even] "+&r"(even), [odd] "+&r"(odd), [from] "+&r"(from), [s] "=&r"(s)
                    : [step] "r"(channels)
                    : "memory");
        }
    }
    sums[0] = (int16_t)even;
    sums[1] = (int16_t)odd;
    sums[2] = even >> 16;
    sums[3] = odd >> 16;
}

/* Sums all channels of a window. */
static inline void ge_dsp_window_sums(const ge_rows *x, const ge_dsp_window *w, int32_t in_w, int32_t channels,
                                      int32_t *sums) {
    if ((w->bottom - w->top) * (w->right - w->left) > GE_DSP_POOL_SMALL) {
        ge_dsp_sums(x, w, in_w, channels, sums);
        return;
    }
    for (int32_t c = 0; c < channels; c += 4) {
        const int32_t channel = c < channels - 4 ? c : channels - 4;
        ge_dsp_small_sums(x, w, channels, channel, sums + channel);
    }
}

#endif
