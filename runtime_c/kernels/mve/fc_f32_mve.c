/* Fully connected layer on float32 rows: Helium, two rows by eight outputs at a time (ge_mve_float.h); a last row that
 * is alone is computed twice.
 *
 * scratch: two rows, if their length is not a multiple of four. */
#include "ge.h"
#include "ge_mve_float.h"
#include "ge_params.h"

static void ge_fc_f32_mve(const ge_fc_f32_params *p, const ge_rows *x, const float *stream, const ge_rows *out,
                          int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t turns = (p->in_c + 3) / 4;
    ge_mve_float_job job = {{NULL, NULL}, {NULL, NULL}, stream, 0, turns, p->lo, p->hi};
    for (int32_t y = first_row; y < last_row; y += 2) {
        uint32_t least = GE_MVE_FLOAT_NONE;
        for (int32_t i = 0; i < 2; i++) {
            const int32_t row = y + i < last_row ? y + i : y;
            job.x[i] = (const float *)ge_row(x, row);
            job.out[i] = (float *)ge_row(out, row);
            if (p->in_c % 4 == 0) {
                least = ge_mve_float_least(job.x[i], p->in_c, least);
            } else {
                float *const copy = (float *)scratch + i * 4 * turns;
                least = ge_mve_float_copy(copy, job.x[i], p->in_c, least);
                ge_mve_float_zeros(copy + p->in_c, -p->in_c & 3);
                job.x[i] = copy;
            }
        }
        ge_mve_float_run(&job, p->out_c, least);
    }
}
