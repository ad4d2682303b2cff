/* Mean of each window of int16 [H, W, C] for Cortex-M4, M7 and M33: four channels at a time, any window.
 *
 * SXTAH and ADD with ASR add both halves of a word to sums of 32 bits. Over all of 25x5x64: 2.6 cycles per element. */
#include "ge.h"
#include "ge_dsp_wide_pool.h"
#include "ge_params.h"
#include "ge_wide.h"

/* Returns how many of `taps` positions, from `start` on in steps of `dilation`, lie in first..last-1. */
static int32_t avgpool_s16_dsp_taps(int32_t start, int32_t taps, int32_t dilation, int32_t first, int32_t last) {
    int32_t count = 0;
    for (int32_t k = 0; k < taps; k++) {
        const int32_t i = start + k * dilation;
        count += i >= first && i < last;
    }
    return count;
}

/* clang-format off */

/* Adds `twos` > 0 times two elements, `step` bytes apart, of four channels to the sums: 19 cycles. */
static GE_NOINLINE void avgpool_s16_dsp_twos(const int16_t *x, int32_t step, int32_t twos, int32_t *sums) {
    register const int16_t *r0 __asm__("r0") = x; /* in named registers, as -O0 finds too few */
    register int32_t r1 __asm__("r1") = step;
    register int32_t r2 __asm__("r2") = twos;
    register int32_t *r3 __asm__("r3") = sums;
    __asm__ volatile("    ldm.w r3, {r4, r5, r6, r8}\n"
                     "    add.w r12, r0, r1\n"
                     "    .balign 4\n"
                     "1:\n"
                     "    ldr.w r9, [r0]\n"
                     "    ldr.w r10, [r0, #4]\n"
                     "    ldr.w r11, [r12]\n"
                     "    ldr.w lr, [r12, #4]\n"
                     "    add.w r0, r0, r1, lsl #1\n"
                     "    add.w r12, r12, r1, lsl #1\n"
                     "    subs.w r2, r2, #1\n"
                     "    sxtah r4, r4, r9\n"
                     "    add.w r5, r5, r9, asr #16\n"
                     "    sxtah r6, r6, r10\n"
                     "    add.w r8, r8, r10, asr #16\n"
                     "    sxtah r4, r4, r11\n"
                     "    add.w r5, r5, r11, asr #16\n"
                     "    sxtah r6, r6, lr\n"
                     "    add.w r8, r8, lr, asr #16\n"
                     "    bne.w 1b\n"
                     "    stm.w r3, {r4, r5, r6, r8}\n"
                     : "+r"(r0), "+r"(r2)
                     : "r"(r1), "r"(r3)
                     : "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

/* Adds `count` elements, `step` half-words apart, of four channels to the sums. */
static void avgpool_s16_dsp_four(const int16_t *x, int32_t step, int32_t count, int32_t *sums) {
    if (count > 1) {
        avgpool_s16_dsp_twos(x, 2 * step, count / 2, sums);
    }
    if ((count & 1) != 0) {
        for (int32_t i = 0; i < 4; i++) {
            sums[i] += x[(count - 1) * step + i];
        }
    }
}

/* Sums the `count` (1..4) channels from x + c on over the taps of a window whose first row is `top`. */
static void avgpool_s16_dsp_sums(const ge_avgpool_params *p, const ge_rows *x, const ge_dsp_wide_span *rows,
                                 const ge_dsp_wide_span *columns, int32_t top, int32_t left, int32_t c, int32_t count,
                                 int32_t *sums) {
    const int32_t step = p->dilation_w * p->channels, across = columns->last - columns->first;
    if (count == 4 && x->slots == NULL && x->stride == 2 * across * step && p->dilation_h == 1) {
        const int16_t *const first = (const int16_t *)ge_row(x, top + rows->first) + c; /* rows follow each other */
        avgpool_s16_dsp_four(first + (left + columns->first * p->dilation_w) * p->channels, step,
                             (rows->last - rows->first) * across, sums);
        return;
    }
    for (int32_t ky = rows->first; ky < rows->last; ky++) {
        const int16_t *const row = (const int16_t *)ge_row(x, top + ky * p->dilation_h) + c;
        const int16_t *at = row + (left + columns->first * p->dilation_w) * p->channels;
        if (count == 4) {
            avgpool_s16_dsp_four(at, step, across, sums);
            continue;
        }
        for (int32_t kx = columns->first; kx < columns->last; kx++) {
            for (int32_t i = 0; i < count; i++) {
                sums[i] += at[i];
            }
            at += step;
        }
    }
}

/* Computes one output row, whose windows begin at row `top`. */
static void avgpool_s16_dsp_row(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier, int32_t top,
                                int16_t *o) {
    const int32_t down = avgpool_s16_dsp_taps(top, p->kernel_h, p->dilation_h, p->count_top, p->count_bottom);
    const int32_t first = (down - p->min_rows) * p->table_columns - p->min_columns;
    const ge_dsp_wide_span rows = ge_dsp_wide_span_of(top, p->kernel_h, p->dilation_h, p->in_h);
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        const int32_t left = ox * p->stride_w - p->pad_left;
        const int32_t across = avgpool_s16_dsp_taps(left, p->kernel_w, p->dilation_w, p->count_left, p->count_right);
        const ge_dsp_wide_span columns = ge_dsp_wide_span_of(left, p->kernel_w, p->dilation_w, p->in_w);
        const int32_t elements = (rows.last - rows.first) * (columns.last - columns.first);
        const int32_t m = multiplier[first + across];
        for (int32_t c = 0; c < p->channels; c += 4) {
            const int32_t count = p->channels - c < 4 ? p->channels - c : 4;
            int32_t sums[4] = {0, 0, 0, 0};
            avgpool_s16_dsp_sums(p, x, &rows, &columns, top, left, c, count, sums);
            for (int32_t i = 0; i < count; i++) {
                const int32_t sum = sums[i] - elements * p->in_zero_point;
                *o++ = (int16_t)ge_requantize_wide(sum, m, p->shift, p->out_zero_point, p->lo, p->hi);
            }
        }
    }
}

static void ge_avgpool_s16_dsp(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier,
                               const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        avgpool_s16_dsp_row(p, x, multiplier, y * p->stride_h - p->pad_top, (int16_t *)ge_row(out, y));
    }
}
