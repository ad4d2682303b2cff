/* Mean of each window of float32 [H, W, C]: Helium with float. Sums are vectors of channels; divisions are scalar. */
#include "ge.h"
#include "ge_mve_float.h"
#include "ge_mve_wide_pool.h"
#include "ge_params.h"

/* Sums all channels of a window. Returns 1 where the sums may be wrong because an input is tiny, else 0. */
static inline int32_t avgpool_f32_mve_window(const ge_avgpool_f32_params *p, const ge_rows *x,
                                             const ge_thumb_span *rows, const ge_thumb_span *columns, int32_t top,
                                             int32_t left, float *o) {
    uint32_t least = GE_MVE_WIDE_POOL_NONE;
    ge_mve_float_zeros(o, p->channels);
    for (int32_t ky = rows->first; ky < rows->last; ky++) {
        const float *at = GE_THUMB_TAP(float, p, x, left, columns, top + ky * p->dilation_h, 0);
        for (int32_t kx = columns->first; kx < columns->last; kx++) {
            least = ge_mve_wide_add_f32(o, at, p->channels, least);
            at += p->dilation_w * p->channels;
        }
    }
    return ge_mve_wide_tiny(least);
}

/* Computes the window channel by channel with scalar arithmetic, which is right for any numbers. */
static GE_NOINLINE void avgpool_f32_mve_singly(const ge_avgpool_f32_params *p, const ge_rows *x,
                                               const ge_thumb_span *rows, const ge_thumb_span *columns, int32_t top,
                                               int32_t left, float *o) {
    for (int32_t c = 0; c < p->channels; c++) {
        float sum = 0.0f;
        for (int32_t ky = rows->first; ky < rows->last; ky++) {
            const float *at = GE_THUMB_TAP(float, p, x, left, columns, top + ky * p->dilation_h, c);
            for (int32_t kx = columns->first; kx < columns->last; kx++) {
                sum += *at;
                at += p->dilation_w * p->channels;
            }
        }
        o[c] = sum;
    }
}

static void ge_avgpool_f32_mve(const ge_avgpool_f32_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                               int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t top = y * p->stride_h - p->pad_top;
        const ge_thumb_span rows = ge_thumb_span_of(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        const ge_thumb_span down = ge_thumb_span_of(top, p->kernel_h, p->dilation_h, p->count_top, p->count_bottom);
        float *o = (float *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int32_t left = ox * p->stride_w - p->pad_left;
            const ge_thumb_span columns = ge_thumb_span_of(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            const ge_thumb_span across =
                ge_thumb_span_of(left, p->kernel_w, p->dilation_w, p->count_left, p->count_right);
            const float count = (float)((down.last - down.first) * (across.last - across.first));
            if (avgpool_f32_mve_window(p, x, &rows, &columns, top, left, o)) {
                avgpool_f32_mve_singly(p, x, &rows, &columns, top, left, o);
            }
            for (int32_t c = 0; c < p->channels; c++) {
                o[c] = ge_clamp_f32(o[c] / count, p->lo, p->hi);
            }
            o += p->channels;
        }
    }
}
