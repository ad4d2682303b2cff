/* Mean of each window of int8 [H, W, C], C at least 4, as TensorFlow Lite computes it, with halves rounded away from
 * zero, for Cortex-M4, M7 and M33. The sums are those of avgpool_s8_dsp. scratch: the sums of all channels. */
#include "ge.h"
#include "ge_dsp_pool.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

/* Computes all channels of one output from the sums of `count` elements. */
static void avgpool_tflite_s8_dsp_outputs(const ge_avgpool_same_params *p, const int32_t *sums, int32_t count,
                                          int8_t *o) {
    const int32_t lo = p->lo, hi = p->hi, half = count / 2;
    const int32_t *const end = sums + p->channels;
    while (sums < end) {
        const int32_t sum = *sums++;
        *o++ = (int8_t)ge_clamp((sum > 0 ? sum + half : sum - half) / count, lo, hi);
    }
}

static void ge_avgpool_tflite_s8_dsp(const ge_avgpool_same_params *p, const ge_rows *x, const ge_rows *out,
                                     int32_t first_row, int32_t last_row, void *scratch) {
    int32_t *const sums = (int32_t *)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const ge_dsp_window w = ge_dsp_window_of(y * p->stride_h - p->pad_top, ox * p->stride_w - p->pad_left,
                                                     p->kernel_h, p->kernel_w, p->in_h, p->in_w);
            ge_dsp_window_sums(x, &w, p->in_w, p->channels, sums);
            avgpool_tflite_s8_dsp_outputs(p, sums, (w.bottom - w.top) * (w.right - w.left), o);
            o += p->channels;
        }
    }
}
