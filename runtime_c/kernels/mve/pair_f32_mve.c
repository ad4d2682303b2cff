/* Sum, difference or product of two tensors of float32 that broadcast to one shape: Helium with float.
 *
 * Vector arithmetic flushes subnormal numbers. None occur where all operands of a line are 0 or at least 2^-50 in
 * magnitude (ge_mve_float.h); other lines use scalar arithmetic. Cost: 5 instructions per element. */
#include "ge.h"
#include "ge_mve_float.h"
#include "ge_mve_pair.h"
#include "ge_params.h"

/* clang-format off */
#define PAIR_F32_MVE_LOOPS PAIR_F32_MVE_SUMS /* or PAIR_F32_MVE_PRODUCTS */
#define PAIR_F32_MVE_PARAMS ge_add_f32_params
/* clang-format on */

#define PAIR_F32_MVE_SUMS(p, job)                                                                                      \
    if ((p)->subtract) {                                                                                               \
        GE_MVE_PAIR_RUN(job, GE_MVE_PAIR_SUB_F32);                                                                     \
    } else {                                                                                                           \
        GE_MVE_PAIR_RUN(job, GE_MVE_PAIR_ADD_F32);                                                                     \
    }
#define PAIR_F32_MVE_SUMS_ONE(p, a, b) ((p)->subtract ? (a) - (b) : (a) + (b))
#define PAIR_F32_MVE_PRODUCTS(p, job) GE_MVE_PAIR_RUN(job, GE_MVE_PAIR_MUL_F32);
#define PAIR_F32_MVE_PRODUCTS_ONE(p, a, b) ((a) * (b))

#define PAIR_F32_MVE_JOINED(loops) loops##_ONE
#define PAIR_F32_MVE_ONE(loops) PAIR_F32_MVE_JOINED(loops)

/* One line along the innermost dimension. */
static GE_NOINLINE void pair_f32_mve_line(const PAIR_F32_MVE_PARAMS *p, const float *a, const float *b, float *o) {
    float same_a[4] = {*a, *a, *a, *a}, same_b[4] = {*b, *b, *b, *b};
    const int32_t *const s = p->strides_a, *const t = p->strides_b;
    const int32_t count = p->dims[3];
    uint32_t least = ge_mve_float_least(a, s[3] == 0 ? 1 : count, GE_MVE_FLOAT_NONE);
    least = ge_mve_float_least(b, t[3] == 0 ? 1 : count, least);
    if (ge_mve_float_tiny(least)) {
        for (int32_t i = 0; i < count; i++) {
            o[i] = ge_clamp_f32(PAIR_F32_MVE_ONE(PAIR_F32_MVE_LOOPS)(p, a[i * s[3]], b[i * t[3]]), p->lo, p->hi);
        }
        return;
    }
    const int32_t lo = (int32_t)ge_bits_of(p->lo), hi = (int32_t)ge_bits_of(p->hi);
    const ge_mve_pair job = {
        s[3] == 0 ? same_a : a, t[3] == 0 ? same_b : b, o, 16 * s[3], 16 * t[3], lo, hi, 0, 0, 0, 0, lo, hi, count};
    PAIR_F32_MVE_LOOPS(p, &job)
}

static void ge_pair_f32_mve(const PAIR_F32_MVE_PARAMS *p, const ge_rows *a, const ge_rows *b, const ge_rows *out,
                            int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t *const s = p->strides_a, *const t = p->strides_b;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const float *const row_a = (const float *)ge_row(a, y * p->row_step_a);
        const float *const row_b = (const float *)ge_row(b, y * p->row_step_b);
        float *o = (float *)ge_row(out, y);
        for (int32_t i = 0; i < p->dims[0]; i++) {
            for (int32_t j = 0; j < p->dims[1]; j++) {
                for (int32_t k = 0; k < p->dims[2]; k++) {
                    pair_f32_mve_line(p, row_a + i * s[0] + j * s[1] + k * s[2], row_b + i * t[0] + j * t[1] + k * t[2],
                                      o);
                    o += p->dims[3];
                }
            }
        }
    }
}
