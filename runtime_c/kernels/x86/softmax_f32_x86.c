/* Softmax of float32 vectors: one source for every level of x86-64. Exponentials are ge_exp_f32 of each number of a
 * vector; sums are added from first to last. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_ints.h"
#include "ge_x86_ints_exp.h"

static inline GE_X86_INLINE float softmax_f32_x86_largest(const float *x, int32_t n) {
    float largest = x[0];
    for (int32_t i = 1; i < n; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    return largest;
}

static GE_X86_FN void softmax_f32_x86_vector(const float *x, float *o, int32_t n) {
    const float largest = softmax_f32_x86_largest(x, n);
    const ge_x86_floats most = ge_x86_floats_all(largest);
    float sum = 0.0f;
    for (int32_t i = 0; i < n; i += GE_X86_FLOATS) {
        const int32_t count = n - i < GE_X86_FLOATS ? n - i : GE_X86_FLOATS;
        const ge_x86_floats less = ge_x86_as_floats(ge_x86_some_elements_at(x + i, count, 4)) - most;
        ge_x86_store_some_elements(o + i, ge_x86_as_ints(ge_x86_exp(less)), count, 4);
    }
    for (int32_t i = 0; i < n; i++) {
        sum += o[i];
    }
    const ge_x86_floats all = ge_x86_floats_all(sum);
    for (int32_t i = 0; i < n; i += GE_X86_FLOATS) {
        const int32_t count = n - i < GE_X86_FLOATS ? n - i : GE_X86_FLOATS;
        const ge_x86_floats e = ge_x86_as_floats(ge_x86_some_elements_at(o + i, count, 4));
        ge_x86_store_some_elements(o + i, ge_x86_as_ints(e / all), count, 4);
    }
}

static GE_X86_FN void ge_softmax_f32_x86(const ge_softmax_f32_params *p, const ge_rows *x, const ge_rows *out,
                                         int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const float *const v = (const float *)ge_row(x, y);
        float *const o = (float *)ge_row(out, y);
        for (int32_t k = 0; k < p->vectors; k++) {
            softmax_f32_x86_vector(v + k * p->n, o + k * p->n, p->n);
        }
    }
}
