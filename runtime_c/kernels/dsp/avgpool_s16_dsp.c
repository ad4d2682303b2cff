/* Mean of each window of int16 [H, W, C] for Cortex-M4, M7 and M33: four channels at a time, any window.
 *
 * SXTAH and ADD with ASR add both halves of a word to sums of 32 bits. Over all of 25x5x64: 3 cycles per element. */
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

/* Adds `count` elements, `step` half-words apart, of four channels to the sums. */
static inline void avgpool_s16_dsp_four(const int16_t *x, int32_t step, int32_t count, int32_t *sums) {
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    for (; count > 0; count--) {
        int32_t s, t;
        memcpy(&s, x, 4);
        memcpy(&t, x + 2, 4);
        __asm__("sxtah %0, %0, %1" : "+r"(a) : "r"(s));
        b += s >> 16;
        __asm__("sxtah %0, %0, %1" : "+r"(c) : "r"(t));
        d += t >> 16;
        x += step;
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
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
