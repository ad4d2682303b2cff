/* Mean of each window of int8 [H, W, C]: one source for every level of x86-64. It sums 16 channels at a time over all
 * taps. Divisions are multiplications: there is one multiplier for each possible number of rows and columns that
 * count. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_law.h"

#define AVGPOOL_S8_X86_LAW default

/* Returns how many of `taps` positions, from `start` on in steps of `dilation`, lie in first..last-1. */
static GE_X86_FN int32_t avgpool_s8_x86_taps(int32_t start, int32_t taps, int32_t dilation, int32_t first,
                                             int32_t last) {
    int32_t count = 0;
    for (int32_t k = 0; k < taps; k++) {
        const int32_t i = start + k * dilation;
        count += i >= first && i < last;
    }
    return count;
}

/* Sums `count` channels from c on over the elements inside the input of the window at row `top` and column `left`. */
static inline GE_X86_INLINE ge_x86_sums avgpool_s8_x86_window(const ge_avgpool_params *p, const ge_rows *x, int32_t top,
                                                              int32_t left, int32_t c, int32_t count) {
    ge_x86_sums even = ge_x86_zero(), odd = ge_x86_zero();
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = top + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h) {
            continue;
        }
        const int8_t *row = (const int8_t *)ge_row(x, iy) + c;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = left + kx * p->dilation_w;
            if (ix >= 0 && ix < p->in_w) {
                const ge_x86_sums sum = ge_x86_add(odd, ge_x86_widened(row + ix * p->channels, count));
                odd = even;
                even = sum;
            }
        }
    }
    return ge_x86_add(even, odd);
}

/* Computes one output row, whose windows begin at row `top`. */
static GE_X86_FN void avgpool_s8_x86_row(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier,
                                         const float *scale, const ge_x86_law *law, int32_t top, int8_t *o) {
    int32_t words[16 * GE_X86_WORDS(AVGPOOL_S8_X86_LAW)] = {0}, last = -1;
    float floats[16 * GE_X86_ROWS(AVGPOOL_S8_X86_LAW)] = {0};
    const int32_t rows = avgpool_s8_x86_taps(top, p->kernel_h, p->dilation_h, 0, p->in_h);
    const int32_t down = avgpool_s8_x86_taps(top, p->kernel_h, p->dilation_h, p->count_top, p->count_bottom);
    const int32_t first = (down - p->min_rows) * p->table_columns - p->min_columns;
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        const int32_t left = ox * p->stride_w - p->pad_left;
        const int32_t columns = avgpool_s8_x86_taps(left, p->kernel_w, p->dilation_w, 0, p->in_w);
        const int32_t across = avgpool_s8_x86_taps(left, p->kernel_w, p->dilation_w, p->count_left, p->count_right);
        const int32_t place = first + across, offset = -rows * columns * p->in_zero_point;
        int32_t zero[16];
        ge_x86_spread(zero, &offset, 1);
        if (place != last) {
            ge_x86_spread(words, multiplier + place * GE_X86_WORDS(AVGPOOL_S8_X86_LAW),
                          GE_X86_WORDS(AVGPOOL_S8_X86_LAW));
            ge_x86_spread(floats, scale + place * GE_X86_ROWS(AVGPOOL_S8_X86_LAW), GE_X86_ROWS(AVGPOOL_S8_X86_LAW));
            last = place;
        }
        const int32_t form = ge_x86_form(floats);
        for (int32_t c = 0; c < p->channels; c += 16) {
            const int32_t count = p->channels - c < 16 ? p->channels - c : 16;
            const ge_x86_sums sums = count == 16 ? avgpool_s8_x86_window(p, x, top, left, c, 16)
                                                 : avgpool_s8_x86_window(p, x, top, left, c, count);
            const ge_x86_sums acc = ge_x86_add(sums, ge_x86_load(zero));
            const ge_x86_sums y = GE_X86_BY(AVGPOOL_S8_X86_LAW, _sums)(acc, words, floats, form, law);
            ge_x86_store_shorts1(o + c, y, count, law);
        }
        o += p->channels;
    }
}

static GE_X86_FN void ge_avgpool_s8_x86(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier,
                                        const float *scale, const ge_rows *out, int32_t first_row, int32_t last_row,
                                        void *scratch) {
    const ge_x86_law law = ge_x86_law_of(p->shift, p->out_zero_point, p->lo, p->hi);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        avgpool_s8_x86_row(p, x, multiplier, scale, &law, y * p->stride_h - p->pad_top, (int8_t *)ge_row(out, y));
    }
}
