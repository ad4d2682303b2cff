/* Mean of each window of int8 [H, W, C] as TensorFlow Lite computes it, with halves rounded away from zero: Helium.
 *
 * It sums 16 channels at a time. scratch: a pointer for each row of the kernel, a sum for each channel. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_mve_pool.h"
#include "ge_params.h"

/* Computes all channels of one output from the sums of `count` elements. */
static void avgpool_tflite_s8_mve_outputs(const ge_avgpool_same_params *p, const int32_t *sums, int32_t count,
                                          int8_t *o) {
    const int32_t lo = p->lo, hi = p->hi, half = count / 2;
    const int32_t *const end = sums + p->channels;
    while (sums < end) {
        const int32_t sum = *sums++;
        *o++ = (int8_t)ge_clamp((sum > 0 ? sum + half : sum - half) / count, lo, hi);
    }
}

static void ge_avgpool_tflite_s8_mve(const ge_avgpool_same_params *p, const ge_rows *x, const ge_rows *out,
                                     int32_t first_row, int32_t last_row, void *scratch) {
    const int8_t **const row = (const int8_t **)scratch;
    int32_t *const sums = (int32_t *)(row + p->kernel_h);
    const int32_t step = p->dilation_w * p->channels;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        int32_t rows = 0;
        for (int32_t k = 0; k < p->kernel_h; k++) {
            const int32_t iy = y * p->stride_h - p->pad_top + k * p->dilation_h;
            if (iy >= 0 && iy < p->in_h) {
                row[rows++] = (const int8_t *)ge_row(x, iy);
            }
        }
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int32_t left = ox * p->stride_w - p->pad_left;
            const int32_t begin = ge_mve_taps_before(left, p->kernel_w, p->dilation_w, 0);
            const int32_t columns = ge_mve_taps_before(left, p->kernel_w, p->dilation_w, p->in_w) - begin;
            ge_mve_fill((int8_t *)sums, 0, 4 * p->channels);
            ge_mve_add_rows(row, rows, (left + begin * p->dilation_w) * p->channels, columns, step, p->channels, sums);
            avgpool_tflite_s8_mve_outputs(p, sums, rows * columns, o);
            o += p->channels;
        }
    }
}
