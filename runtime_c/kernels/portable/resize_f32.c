/* Resizes float32 [H, W, C] by weighted sums, whose positions and weights come from tables, in portable C. */
#include "ge.h"
#include "ge_params.h"

/* Computes the channels of one output pixel. at: the positions of its columns in a row, in elements. */
static void resize_f32_pixel(const ge_resize_params *p, const ge_rows *x, const int32_t *row_at,
                             const float *row_weight, const int32_t *at, const float *weight, float *o) {
    for (int32_t c = 0; c < p->channels; c++) {
        float total = 0.0f;
        for (int32_t i = 0; i < p->taps_h; i++) {
            const float *row = (const float *)ge_row(x, row_at[i]);
            float sum = 0.0f;
            for (int32_t j = 0; j < p->taps_w; j++) {
                sum += weight[j] * row[at[j] + c];
            }
            total += row_weight[i] * sum;
        }
        o[c] = total;
    }
}

static void ge_resize_f32(const ge_resize_params *p, const ge_rows *x, const int32_t *row_at, const float *row_weight,
                          const int32_t *column_at, const float *column_weight, const ge_rows *out, int32_t first_row,
                          int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        float *o = (float *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++, o += p->channels) {
            if (p->taps_h == 1 && p->taps_w == 1) {
                memcpy(o, (const float *)ge_row(x, row_at[y * p->taps_h]) + column_at[ox * p->taps_w],
                       (size_t)p->channels * sizeof(float));
            } else {
                resize_f32_pixel(p, x, row_at + y * p->taps_h, row_weight + y * p->taps_h, column_at + ox * p->taps_w,
                                 column_weight + ox * p->taps_w, o);
            }
        }
    }
}
