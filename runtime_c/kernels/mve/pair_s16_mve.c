/* Sum, difference or product of two tensors of int16 that broadcast to one shape, where the inputs have no zero points:
 * Helium.
 *
 * Sums take 4, products 3 instructions per element; ge_mve_pair.h has the loops. */
#include "ge.h"
#include "ge_mve_pair.h"
#include "ge_params.h"

/* clang-format off */
#define PAIR_S16_MVE_LOOP GE_MVE_PAIR_ADD_S16 /* or GE_MVE_PAIR_MUL_S16 */
#define PAIR_S16_MVE_SPLIT PAIR_S16_MVE_OF_SUM /* or PAIR_S16_MVE_OF_PRODUCT */
#define PAIR_S16_MVE_PARAMS ge_add_s16_params
/* clang-format on */

#define PAIR_S16_MVE_OF_SUM(p, job)                                                                                    \
    (job).high_a = (p)->multiplier_a >> 15;                                                                            \
    (job).high_b = (p)->multiplier_b >> 15;                                                                            \
    (job).low_a = (p)->multiplier_a & 0x7FFF;                                                                          \
    (job).low_b = (p)->multiplier_b & 0x7FFF;                                                                          \
    (job).shift = 16 - (p)->shift;

#define PAIR_S16_MVE_OF_PRODUCT(p, job)                                                                                \
    (job).high_a = (p)->multiplier;                                                                                    \
    (job).shift = 32 - (p)->shift;

/* One line along the innermost dimension. */
static GE_NOINLINE void pair_s16_mve_line(ge_mve_pair *job, const int16_t *a, const int16_t *b) {
    int16_t same_a[4], same_b[4];
    job->a = a;
    job->b = b;
    if (job->step_a == 0) {
        same_a[0] = same_a[1] = same_a[2] = same_a[3] = *a;
        job->a = same_a;
    }
    if (job->step_b == 0) {
        same_b[0] = same_b[1] = same_b[2] = same_b[3] = *b;
        job->b = same_b;
    }
    GE_MVE_PAIR_RUN(job, PAIR_S16_MVE_LOOP);
    job->out = (int16_t *)job->out + job->count;
}

static void ge_pair_s16_mve(const PAIR_S16_MVE_PARAMS *p, const ge_rows *a, const ge_rows *b, const ge_rows *out,
                            int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t *const s = p->strides_a, *const t = p->strides_b;
    ge_mve_pair job = {NULL, NULL, NULL, 8 * s[3],          8 * t[3], 0,     0,
                       0,    0,    0,    p->out_zero_point, p->lo,    p->hi, p->dims[3]};
    (void)scratch;
    PAIR_S16_MVE_SPLIT(p, job)
    for (int32_t y = first_row; y < last_row; y++) {
        const int16_t *const row_a = (const int16_t *)ge_row(a, y * p->row_step_a);
        const int16_t *const row_b = (const int16_t *)ge_row(b, y * p->row_step_b);
        job.out = ge_row(out, y);
        for (int32_t i = 0; i < p->dims[0]; i++) {
            for (int32_t j = 0; j < p->dims[1]; j++) {
                for (int32_t k = 0; k < p->dims[2]; k++) {
                    pair_s16_mve_line(&job, row_a + i * s[0] + j * s[1] + k * s[2],
                                      row_b + i * t[0] + j * t[1] + k * t[2]);
                }
            }
        }
    }
}
