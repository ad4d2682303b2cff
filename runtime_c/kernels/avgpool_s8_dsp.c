/* Mean of each window of int8 [H, W, C], C at least 4, for Cortex-M4, M7 and M33.
 *
 * SXTAB16 adds two channels at a time in half-words, sixteen channels in a pass where there are as many: eight words of
 * sums. At most 256 elements, so that no half-word overflows; then they go into 32-bit sums.
 * 1.2 cycles for each element of a window, where windows are wide. Small windows are summed four channels at a time
 * without 32-bit sums on the way. scratch: the sums of all channels. */
#include "ge.h"
#include "ge_dsp_pool.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

#define AVGPOOL_S8_DSP_RUN 256  /* elements whose sum fits half a word */
#define AVGPOOL_S8_DSP_SMALL 32 /* elements of a window that is summed in one go */

/* Adds `count` elements, `step` bytes apart, of sixteen channels. */
static void avgpool_s8_dsp_sixteen(const int8_t *x, int32_t step, int32_t count, int32_t *sums) {
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

/* The same of four channels. */
static void avgpool_s8_dsp_four(const int8_t *x, int32_t step, int32_t count, int32_t *sums) {
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

/* Adds `count` elements of all channels that follow each other. */
static void avgpool_s8_dsp_add(const int8_t *x, int32_t channels, int32_t count, int32_t *sums) {
    int32_t c = 0;
    for (; c + 16 <= channels; c += 16) {
        avgpool_s8_dsp_sixteen(x + c, channels, count, sums + c);
    }
    for (; c + 4 <= channels; c += 4) {
        avgpool_s8_dsp_four(x + c, channels, count, sums + c);
    }
    for (const int32_t end = c + (channels & 3); c < end; c++) { /* c < channels makes gcc 12 see c run past int32 */
        for (int32_t i = 0; i < count; i++) {
            sums[c] += x[i * channels + c];
        }
    }
}

/* Sums of the channels of all elements of a window. Rows that follow each other, as those of a mean over the image, are
 * taken together. */
static void avgpool_s8_dsp_sums(const ge_avgpool_params *p, const ge_rows *x, const ge_dsp_window *w, int32_t *sums) {
    const int32_t whole = w->right - w->left == p->in_w && x->slots == NULL;
    const int32_t rows = whole ? 1 : w->bottom - w->top;
    const int32_t length = (w->right - w->left) * (whole ? w->bottom - w->top : 1);
    memset(sums, 0, (size_t)p->channels * sizeof *sums);
    for (int32_t y = w->top; y < w->top + rows; y++) {
        const int8_t *from = (const int8_t *)ge_row(x, y) + w->left * p->channels;
        for (int32_t done = 0; done < length; done += AVGPOOL_S8_DSP_RUN) {
            const int32_t left = length - done;
            avgpool_s8_dsp_add(from + done * p->channels, p->channels,
                               left < AVGPOOL_S8_DSP_RUN ? left : AVGPOOL_S8_DSP_RUN, sums);
        }
    }
}

/* Sums of four channels of all elements of a window that has at most 256 of them. */
static void avgpool_s8_dsp_window(const ge_avgpool_params *p, const ge_rows *x, const ge_dsp_window *w, int32_t channel,
                                  int32_t *sums) {
    int32_t even = 0, odd = 0;
    for (int32_t y = w->top; y < w->bottom; y++) {
        const int8_t *from = (const int8_t *)ge_row(x, y) + w->left * p->channels + channel;
        for (int32_t i = w->left; i < w->right; i++) {
            int32_t s;
            __asm__("    ldr.w %[s], [%[from]]\n"
                    "    add.w %[from], %[from], %[step]\n"
                    "    sxtab16 %[even], %[even], %[s]\n"
                    "    sxtab16 %[odd], %[odd], %[s], ror #8\n"
                    : [even] "+&r"(even), [odd] "+&r"(odd), [from] "+&r"(from), [s] "=&r"(s)
                    : [step] "r"(p->channels)
                    : "memory");
        }
    }
    sums[0] = (int16_t)even;
    sums[1] = (int16_t)odd;
    sums[2] = even >> 16;
    sums[3] = odd >> 16;
}

/* How many of `taps` positions from `start` on lie in first..last-1. */
static int32_t avgpool_s8_dsp_taps(int32_t start, int32_t taps, int32_t first, int32_t last) {
    const int32_t begin = start < first ? first : start;
    const int32_t end = start + taps < last ? start + taps : last;
    return end > begin ? end - begin : 0;
}

/* All channels of one output. Params are read first: the compiler must believe that outputs may change them. */
static void avgpool_s8_dsp_outputs(const ge_avgpool_params *p, const int32_t *sums, int32_t zero,
                                   const int32_t *multiplier, int32_t entry, int8_t *o) {
    const int32_t shift = p->shift, zero_point = p->out_zero_point, lo = p->lo, hi = p->hi;
    const int32_t *const end = sums + p->channels;
    while (sums < end) {
        *o++ = ge_requantize(*sums++ - zero, multiplier, entry, shift, zero_point, lo, hi);
    }
}

static void ge_avgpool_s8_dsp(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier,
                              const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    int32_t *const sums = (int32_t *)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        const int32_t top = y * p->stride_h - p->pad_top;
        const int32_t down = avgpool_s8_dsp_taps(top, p->kernel_h, p->count_top, p->count_bottom);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int32_t left = ox * p->stride_w - p->pad_left;
            const int32_t across = avgpool_s8_dsp_taps(left, p->kernel_w, p->count_left, p->count_right);
            const ge_dsp_window w = ge_dsp_window_of(top, left, p->kernel_h, p->kernel_w, p->in_h, p->in_w);
            const int32_t zero = avgpool_s8_dsp_taps(top, p->kernel_h, 0, p->in_h) *
                                 avgpool_s8_dsp_taps(left, p->kernel_w, 0, p->in_w) * p->in_zero_point;
            const int32_t entry = (down - p->min_rows) * p->table_columns + across - p->min_columns;
            const int32_t elements = (w.bottom - w.top) * (w.right - w.left);
            if (elements > AVGPOOL_S8_DSP_SMALL) {
                avgpool_s8_dsp_sums(p, x, &w, sums);
            } else {
                for (int32_t c = 0; c < p->channels; c += 4) {
                    const int32_t channel = c < p->channels - 4 ? c : p->channels - 4;
                    avgpool_s8_dsp_window(p, x, &w, channel, sums + channel);
                }
            }
            avgpool_s8_dsp_outputs(p, sums, zero, multiplier, entry, o);
            o += p->channels;
        }
    }
}
