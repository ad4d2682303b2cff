/* Largest element of each window of int16 or float32 [H, W, C], for Cortex-M: the taps inside are found once for a pixel. */
#include "ge.h"
#include "ge_params.h"
#include "ge_thumb_float.h"
#include "ge_thumb_pool.h"

/* clang-format off */
#define MAXPOOL_WIDE_THUMB_ELEMENT int16_t
#define MAXPOOL_WIDE_THUMB_LEAST INT16_MIN
#define MAXPOOL_WIDE_THUMB_ABOVE GE_THUMB_ABOVE_S16 /* or GE_THUMB_ABOVE_F32 */
/* clang-format on */

/* The larger one. */
#define MAXPOOL_WIDE_THUMB_KEEP(best, v)                                                                               \
    if (MAXPOOL_WIDE_THUMB_ABOVE(v, best)) {                                                                           \
        (best) = (v);                                                                                                  \
    }

/* Two channels of a window, or one where `other` is 0. */
static inline void maxpool_wide_thumb_two(const ge_pool_params *p, const ge_rows *x, const ge_thumb_span *rows,
                                          const ge_thumb_span *columns, int32_t top, int32_t left, int32_t c,
                                          int32_t other, MAXPOOL_WIDE_THUMB_ELEMENT *o) {
    MAXPOOL_WIDE_THUMB_ELEMENT best = MAXPOOL_WIDE_THUMB_LEAST, best2 = MAXPOOL_WIDE_THUMB_LEAST;
    const int32_t step = p->dilation_w * p->channels;
    for (int32_t ky = rows->first; ky < rows->last; ky++) {
        const MAXPOOL_WIDE_THUMB_ELEMENT *at =
            GE_THUMB_TAP(MAXPOOL_WIDE_THUMB_ELEMENT, p, x, left, columns, top + ky * p->dilation_h, c);
        for (int32_t kx = columns->first; kx < columns->last; kx++) {
            const MAXPOOL_WIDE_THUMB_ELEMENT v = at[0], w = at[other];
            MAXPOOL_WIDE_THUMB_KEEP(best, v)
            MAXPOOL_WIDE_THUMB_KEEP(best2, w)
            at += step;
        }
    }
    o[0] = best;
    o[other] = best2;
}

static void ge_maxpool_wide_thumb(const ge_pool_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                                  int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t top = y * p->stride_h - p->pad_top;
        const ge_thumb_span rows = ge_thumb_span_of(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        MAXPOOL_WIDE_THUMB_ELEMENT *o = (MAXPOOL_WIDE_THUMB_ELEMENT *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int32_t left = ox * p->stride_w - p->pad_left;
            const ge_thumb_span columns = ge_thumb_span_of(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            for (int32_t c = 0; c < p->channels; c += 2) {
                maxpool_wide_thumb_two(p, x, &rows, &columns, top, left, c, c + 1 < p->channels, o + c);
            }
            o += p->channels;
        }
    }
}
