/* Largest element of each window of int16 or float32 [H, W, C]; padding never counts: Helium. */
#include "ge.h"
#include "ge_mve_wide_pool.h"
#include "ge_params.h"

/* clang-format off */
#define MAXPOOL_WIDE_MVE_ELEMENT int16_t
#define MAXPOOL_WIDE_MVE_LEAST INT16_MIN
#define MAXPOOL_WIDE_MVE_KEEP ge_mve_wide_keep_s16 /* or ge_mve_wide_keep_f32 */
/* clang-format on */

/* Computes all channels of a window. Returns the least of the inputs. */
static inline uint32_t maxpool_wide_mve_window(const ge_pool_params *p, const ge_rows *x, const ge_thumb_span *rows,
                                               const ge_thumb_span *columns, int32_t top, int32_t left,
                                               MAXPOOL_WIDE_MVE_ELEMENT *o) {
    uint32_t least = GE_MVE_WIDE_POOL_NONE;
    for (int32_t c = 0; c < p->channels; c++) {
        o[c] = MAXPOOL_WIDE_MVE_LEAST;
    }
    for (int32_t ky = rows->first; ky < rows->last; ky++) {
        const MAXPOOL_WIDE_MVE_ELEMENT *at =
            GE_THUMB_TAP(MAXPOOL_WIDE_MVE_ELEMENT, p, x, left, columns, top + ky * p->dilation_h, 0);
        for (int32_t kx = columns->first; kx < columns->last; kx++) {
            least = MAXPOOL_WIDE_MVE_KEEP(o, at, p->channels, least);
            at += p->dilation_w * p->channels;
        }
    }
    return least;
}

/* Computes the window channel by channel with scalar comparisons, for any floats. */
static GE_NOINLINE void maxpool_wide_mve_singly(const ge_pool_params *p, const ge_rows *x, const ge_thumb_span *rows,
                                                const ge_thumb_span *columns, int32_t top, int32_t left,
                                                MAXPOOL_WIDE_MVE_ELEMENT *o) {
    for (int32_t c = 0; c < p->channels; c++) {
        MAXPOOL_WIDE_MVE_ELEMENT best = MAXPOOL_WIDE_MVE_LEAST;
        for (int32_t ky = rows->first; ky < rows->last; ky++) {
            const MAXPOOL_WIDE_MVE_ELEMENT *at =
                GE_THUMB_TAP(MAXPOOL_WIDE_MVE_ELEMENT, p, x, left, columns, top + ky * p->dilation_h, c);
            for (int32_t kx = columns->first; kx < columns->last; kx++) {
                best = *at > best ? *at : best;
                at += p->dilation_w * p->channels;
            }
        }
        o[c] = best;
    }
}

static void ge_maxpool_wide_mve(const ge_pool_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                                int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t top = y * p->stride_h - p->pad_top;
        const ge_thumb_span rows = ge_thumb_span_of(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        MAXPOOL_WIDE_MVE_ELEMENT *o = (MAXPOOL_WIDE_MVE_ELEMENT *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int32_t left = ox * p->stride_w - p->pad_left;
            const ge_thumb_span columns = ge_thumb_span_of(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            if (ge_mve_wide_tiny(maxpool_wide_mve_window(p, x, &rows, &columns, top, left, o))) {
                maxpool_wide_mve_singly(p, x, &rows, &columns, top, left, o);
            }
            o += p->channels;
        }
    }
}
