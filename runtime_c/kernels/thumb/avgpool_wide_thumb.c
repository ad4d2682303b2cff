/* Mean of each window of int16 or float32 [H, W, C], for Cortex-M: the taps inside are found once for a pixel, and four channels
 * are summed at a time. */
#include "ge.h"
#include "ge_params.h"
#include "ge_thumb_average_s16.h"
#include "ge_thumb_pool.h"

/* Adds the `count` channels from c on over the taps of a window whose first row is `top`. */
static inline void avgpool_wide_thumb_sums(const GE_MEAN_PARAMS *p, const ge_rows *x, const ge_thumb_span *rows,
                                           const ge_thumb_span *columns, int32_t top, int32_t left, int32_t c,
                                           int32_t count, GE_MEAN_SUM *sums) {
    const int32_t step = p->dilation_w * p->channels;
    GE_MEAN_SUM a = 0, b = 0, d = 0, e = 0;
    for (int32_t ky = rows->first; ky < rows->last; ky++) {
        const GE_MEAN_ELEMENT *at = GE_THUMB_TAP(GE_MEAN_ELEMENT, p, x, left, columns, top + ky * p->dilation_h, c);
        for (int32_t kx = columns->first; kx < columns->last; kx++) {
            a += at[0];
            if (count == 4) {
                b += at[1];
                d += at[2];
                e += at[3];
            }
            at += step;
        }
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = d;
    sums[3] = e;
}

/* One output row, whose windows begin at row `top`. */
static GE_NOINLINE void avgpool_wide_thumb_row(const GE_MEAN_PARAMS *p, const ge_rows *x, GE_MEAN_MULTIPLIERS,
                                               int32_t top, GE_MEAN_ELEMENT *o) {
    const ge_thumb_span rows = ge_thumb_span_of(top, p->kernel_h, p->dilation_h, 0, p->in_h);
    const ge_thumb_span down = ge_thumb_span_of(top, p->kernel_h, p->dilation_h, p->count_top, p->count_bottom);
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        const int32_t left = ox * p->stride_w - p->pad_left;
        const ge_thumb_span columns = ge_thumb_span_of(left, p->kernel_w, p->dilation_w, 0, p->in_w);
        const ge_thumb_span across = ge_thumb_span_of(left, p->kernel_w, p->dilation_w, p->count_left, p->count_right);
        const GE_MEAN_LAW law = GE_MEAN_LAW_OF(p, (rows.last - rows.first) * (columns.last - columns.first),
                                               down.last - down.first, across.last - across.first);
        for (int32_t c = 0; c < p->channels;) {
            const int32_t count = p->channels - c < 4 ? 1 : 4;
            GE_MEAN_SUM sums[4];
            avgpool_wide_thumb_sums(p, x, &rows, &columns, top, left, c, count, sums);
            for (int32_t i = 0; i < count; i++) {
                *o++ = GE_MEAN_OF(p, sums[i], law);
            }
            c += count;
        }
    }
}

static void ge_avgpool_wide_thumb(const GE_MEAN_PARAMS *p, const ge_rows *x, GE_MEAN_CONSTANTS const ge_rows *out,
                                  int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        avgpool_wide_thumb_row(p, x, GE_MEAN_TABLE, y * p->stride_h - p->pad_top, (GE_MEAN_ELEMENT *)ge_row(out, y));
    }
}
