/* Product of two computed int8 matrices, each with its own zero point, for Cortex-M4, M7 and M33: two vectors of A and
 * four of B at a time.
 *
 * The vectors of B are packed once, those of A two at a time (ge_isa_dsp_matmul.h). Vectors that are so long that their
 * sums could exceed 2^23 are multiplied in chunks. docs/adding-an-op.md states the cycles. */
#include "ge.h"
#include "ge_isa_dsp_matmul.h"
#include "ge_params.h"

/* The parts of the scratch. */
typedef struct {
    uint32_t *columns; /* packed vectors of B, four at a time */
    uint32_t *rows;    /* two vectors of A */
    int32_t *sums;     /* sums of two vectors of A, where they are computed in chunks */
    int32_t steps;     /* steps of a vector */
    int32_t groups;    /* groups of four vectors of B */
    int32_t chunk;     /* elements of a vector that are multiplied at a time */
} matmul_s8_dsp_work;

static matmul_s8_dsp_work matmul_s8_dsp_layout(const ge_matmul_params *p, void *scratch) {
    matmul_s8_dsp_work w;
    w.steps = ge_dsp_matmul_steps(p->k);
    w.groups = (p->n + GE_DSP_MATMUL_FOUR - 1) / GE_DSP_MATMUL_FOUR;
    w.chunk = ge_dsp_matmul_chunk(ge_dsp_matmul_reach(p->zero_point_a), p->zero_point_b);
    w.columns = (uint32_t *)scratch;
    w.rows = w.columns + w.groups * w.steps * 2;
    w.sums = (int32_t *)w.rows + w.steps * 2;
    return w;
}

static void matmul_s8_dsp_pack(const ge_matmul_params *p, const matmul_s8_dsp_work *w, const int8_t *b) {
    for (int32_t g = 0; g < w->groups; g++) {
        const int32_t first = ge_dsp_matmul_first(p->n, g);
        for (int32_t i = 0; i < GE_DSP_MATMUL_FOUR; i += 2) {
            const int32_t u = first + i < p->n ? first + i : p->n - 1, v = u + 1 < p->n ? u + 1 : u;
            ge_dsp_matmul_pack_two(b + u * p->k, b + v * p->k, p->k, w->columns + g * w->steps * 2 + i / 2);
        }
    }
}

/* Packs elements `from` to `to` of two vectors of A. */
static inline void matmul_s8_dsp_rows(const ge_matmul_params *p, const matmul_s8_dsp_work *w, const int8_t *const *a,
                                      int32_t from, int32_t to, ge_dsp_matmul_job *job) {
    int32_t sums[2];
    ge_dsp_matmul_pack_rows(a[0] + from, a[1] + from, to - from, p->zero_point_a, w->rows, sums);
    ge_dsp_matmul_start(job, 0, sums[0], p->zero_point_b);
    ge_dsp_matmul_start(job, 1, sums[1], p->zero_point_b);
}

static void matmul_s8_dsp_in_chunks(const ge_matmul_params *p, const matmul_s8_dsp_work *w, const int8_t *const *a,
                                    ge_dsp_matmul_job *job, int8_t *const *out) {
    const int32_t count = 2 * GE_DSP_MATMUL_FOUR * w->groups;
    memset(w->sums, 0, (size_t)count * sizeof *w->sums);
    job->out[0] = (int8_t *)w->sums;
    job->out_end = (int8_t *)(w->sums + count);
    for (int32_t from = 0; from < p->k; from += w->chunk) {
        const int32_t to = from + w->chunk < p->k ? from + w->chunk : p->k;
        matmul_s8_dsp_rows(p, w, a, from, to, job);
        ge_dsp_matmul_rows(job, w->rows, ge_dsp_matmul_steps(to - from), w->steps);
        ge_dsp_matmul_sums(job, w->columns + from);
    }
    ge_dsp_matmul_finish(job, w->sums, p->n, out);
}

static inline void matmul_s8_dsp_two(const ge_matmul_params *p, const matmul_s8_dsp_work *w, const int8_t *const *a,
                                     ge_dsp_matmul_job *job, int8_t *const *out) {
    if (p->k <= w->chunk) {
        matmul_s8_dsp_rows(p, w, a, 0, p->k, job);
        ge_dsp_matmul_columns(job, w->columns, p->n, w->steps, out, ge_dsp_matmul_bytes);
    } else {
        matmul_s8_dsp_in_chunks(p, w, a, job, out);
    }
    if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
        ge_dsp_clamp(out[0], p->n, p->lo, p->hi);
        ge_dsp_clamp(out[1], p->n, p->lo, p->hi);
    }
}

static void ge_matmul_s8_dsp(const ge_matmul_params *p, const ge_rows *a, const ge_rows *b, const int32_t *multiplier,
                             const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const matmul_s8_dsp_work w = matmul_s8_dsp_layout(p, scratch);
    const int32_t m = p->row_step_b != 0 ? p->m : last_row - first_row;
    ge_dsp_matmul_job job;
    ge_dsp_matmul_law(&job, multiplier[0], p->out_zero_point);
    ge_dsp_matmul_rows(&job, w.rows, w.steps, w.steps);
    for (int32_t y = first_row; y < last_row; y = p->row_step_b != 0 ? y + 1 : last_row) {
        matmul_s8_dsp_pack(p, &w, (const int8_t *)ge_row(b, y * p->row_step_b));
        for (int32_t i = 0; i < m; i += 2) {
            const int8_t *vectors[2];
            int8_t *outputs[2];
            for (int32_t r = 0; r < 2; r++) {
                const int32_t own = i + r < m ? i + r : i;
                const int32_t row = p->row_step_b != 0 ? y : y + own, vector = p->row_step_b != 0 ? own : 0;
                vectors[r] = (const int8_t *)ge_row(a, row * p->row_step_a) + vector * p->k;
                outputs[r] = (int8_t *)ge_row(out, row) + vector * p->n;
            }
            matmul_s8_dsp_two(p, &w, vectors, &job, outputs);
        }
    }
}
