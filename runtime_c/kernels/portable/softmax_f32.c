/* Softmax of float32 vectors, in portable C. Sums are taken from the first element to the last. */
#include "ge.h"
#include "ge_float.h"
#include "ge_params.h"

static float softmax_f32_max(const float *x, int32_t n) {
    float max = x[0];
    for (int32_t i = 1; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

static void softmax_f32_vector(const float *x, float *o, int32_t n) {
    const float max = softmax_f32_max(x, n);
    float sum = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        o[i] = ge_exp_f32(x[i] - max);
        sum += o[i];
    }
    for (int32_t i = 0; i < n; i++) {
        o[i] = o[i] / sum;
    }
}

static void ge_softmax_f32(const ge_softmax_f32_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                           int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const float *v = (const float *)ge_row(x, y);
        float *o = (float *)ge_row(out, y);
        for (int32_t k = 0; k < p->vectors; k++) {
            softmax_f32_vector(v + k * p->n, o + k * p->n, p->n);
        }
    }
}
