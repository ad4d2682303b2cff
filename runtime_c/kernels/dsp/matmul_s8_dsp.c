/* Product of two int8 matrices that are both computed, each with its own zero point, for Cortex-M4, M7 and M33: three vectors
 * of A and two of B at a time.
 *
 * The vectors of B are packed once, as pairs of int16, two of them next to each other; those of A three by three. Cycles are in
 * docs/adding-an-op.md. */
#include "ge.h"
#include "ge_isa_dsp_pairs.h"
#include "ge_params.h"

#define MATMUL_S8_DSP_VECTORS 3

/* Packs the n vectors of B: [pairs of vectors][words of a vector][2]. */
static void matmul_s8_dsp_pack(const ge_matmul_params *p, const int8_t *b, int32_t turns, int32_t *out) {
    const int32_t words = turns * GE_DSP_PAIRS_TURN;
    for (int32_t j = 0; j < (p->n + 1) / 2 * 2; j++) {
        const int8_t *const vector = b + (j < p->n ? j : p->n - 1) * p->k;
        ge_dsp_pack(vector, p->k, p->zero_point_b, out + (j >> 1) * 2 * words + (j & 1), 2);
    }
}

/* `count` vectors of A, of three; the last one stands for those that are missing. */
static void matmul_s8_dsp_three(const ge_matmul_params *p, const int8_t *const *a, int8_t *const *out, int32_t count,
                                const int32_t *b, int32_t *rows, int32_t multiplier) {
    const int32_t turns = (p->k + 7) / 8, words = turns * GE_DSP_PAIRS_TURN, zero = p->out_zero_point;
    for (int32_t r = 0; r < MATMUL_S8_DSP_VECTORS; r++) {
        ge_dsp_pack(a[r < count ? r : count - 1], p->k, p->zero_point_a, rows + r, MATMUL_S8_DSP_VECTORS);
    }
    for (int32_t j = 0; j < p->n; j += 2) {
        const int32_t *const sums = ge_dsp_three_by_two(rows, b + j * words, turns);
        for (int32_t r = 0; r < count; r++) {
            int8_t *const o = out[r] + j;
            o[0] = ge_dsp_ssat8(ge_dsp_smmulr(sums[2 * r], multiplier) + zero);
            if (j + 1 < p->n) {
                o[1] = ge_dsp_ssat8(ge_dsp_smmulr(sums[2 * r + 1], multiplier) + zero);
            }
        }
    }
}

static void ge_matmul_s8_dsp(const ge_matmul_params *p, const ge_rows *a, const ge_rows *b, const int32_t *multiplier,
                             const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t turns = (p->k + 7) / 8, step = MATMUL_S8_DSP_VECTORS;
    int32_t *const columns = (int32_t *)scratch;
    int32_t *const rows = columns + (p->n + 1) / 2 * 2 * turns * GE_DSP_PAIRS_TURN;
    const int32_t m = p->row_step_b != 0 ? p->m : last_row - first_row;
    for (int32_t y = first_row; y < last_row; y = p->row_step_b != 0 ? y + 1 : last_row) {
        matmul_s8_dsp_pack(p, (const int8_t *)ge_row(b, y * p->row_step_b), turns, columns);
        for (int32_t i = 0; i < m; i += step) {
            const int32_t count = m - i < step ? m - i : step;
            const int8_t *vectors[MATMUL_S8_DSP_VECTORS];
            int8_t *outputs[MATMUL_S8_DSP_VECTORS];
            for (int32_t r = 0; r < count; r++) {
                const int32_t row = p->row_step_b != 0 ? y : y + i + r, vector = p->row_step_b != 0 ? i + r : 0;
                vectors[r] = (const int8_t *)ge_row(a, row * p->row_step_a) + vector * p->k;
                outputs[r] = (int8_t *)ge_row(out, row) + vector * p->n;
            }
            matmul_s8_dsp_three(p, vectors, outputs, count, columns, rows, multiplier[0]);
        }
    }
}
