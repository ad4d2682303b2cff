/* Product of two float32 tensors that broadcast to one shape: the portable truth. */
#include "ge.h"
#include "ge_float.h"
#include "ge_params.h"

/* The innermost dim. */
static void mul_f32_line(const ge_mul_f32_params *p, const float *a, const float *b, float *o) {
    for (int32_t i = 0; i < p->dims[3]; i++) {
        const float y = *a * *b;
        o[i] = ge_clamp_f32(y, p->lo, p->hi);
        a += p->strides_a[3];
        b += p->strides_b[3];
    }
}

/* One row; the output is dense, so it is written in the order of the loops. */
static void mul_f32_row(const ge_mul_f32_params *p, const float *a, const float *b, float *o) {
    const int32_t *sa = p->strides_a;
    const int32_t *sb = p->strides_b;
    for (int32_t i = 0; i < p->dims[0]; i++) {
        for (int32_t j = 0; j < p->dims[1]; j++) {
            for (int32_t k = 0; k < p->dims[2]; k++) {
                const float *line_a = a + i * sa[0] + j * sa[1] + k * sa[2];
                const float *line_b = b + i * sb[0] + j * sb[1] + k * sb[2];
                mul_f32_line(p, line_a, line_b, o);
                o += p->dims[3];
            }
        }
    }
}

static void ge_mul_f32(const ge_mul_f32_params *p, const ge_rows *a, const ge_rows *b, const ge_rows *out,
                       int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const float *row_a = (const float *)ge_row(a, y * p->row_step_a);
        const float *row_b = (const float *)ge_row(b, y * p->row_step_b);
        mul_f32_row(p, row_a, row_b, (float *)ge_row(out, y));
    }
}
