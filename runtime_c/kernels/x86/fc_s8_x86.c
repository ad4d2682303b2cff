/* Fully connected layer: int8 rows of in_c features with int8 weights [out_c, in_c]: one source for every level of
 * x86-64.
 *
 * The row becomes elements (ge_x86_portable.h) in scratch. The weights are read once from front to back, 16 outputs at
 * a time, as reading them takes most of the time; eight sums of each output hide the latency of the products.
 */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_law.h"

#define FC_S8_X86_CHAINS 8
#define FC_S8_X86_LAW default

/* Computes 16 sums, not requantized. */
static inline GE_X86_INLINE ge_x86_sums fc_s8_x86_sums(const int8_t *w, const ge_x86_element *x, int32_t steps,
                                                       const int32_t *bias) {
    ge_x86_sums acc[FC_S8_X86_CHAINS];
    int32_t step = 0;
    acc[0] = ge_x86_load(bias);
    GE_X86_UNROLL
    for (int32_t i = 1; i < FC_S8_X86_CHAINS; i++) {
        acc[i] = ge_x86_zero();
    }
    for (; step + FC_S8_X86_CHAINS <= steps; step += FC_S8_X86_CHAINS) {
        GE_X86_UNROLL
        for (int32_t i = 0; i < FC_S8_X86_CHAINS; i++) {
            acc[i] = ge_x86_dot_four(acc[i], w + 64 * i, x + 4 * i);
        }
        w += 64 * FC_S8_X86_CHAINS;
        x += 4 * FC_S8_X86_CHAINS;
    }
    for (; step < steps; step++) {
        acc[0] = ge_x86_dot_four(acc[0], w, x);
        w += 64;
        x += 4;
    }
    GE_X86_UNROLL
    for (int32_t i = 1; i < FC_S8_X86_CHAINS; i++) {
        acc[0] = ge_x86_add(acc[0], acc[i]);
    }
    return acc[0];
}

static GE_X86_FN void ge_fc_s8_x86(const ge_fc_params *p, const ge_rows *x, const int8_t *weights, const int32_t *bias,
                                   const int32_t *multiplier, const float *scale, const ge_rows *out, int32_t first_row,
                                   int32_t last_row, void *scratch) {
    const ge_x86_law law = ge_x86_law_of(p->shift, p->out_zero_point, p->lo, p->hi);
    ge_x86_element *const row = (ge_x86_element *)scratch;
    const int32_t steps = (p->in_c + 3) / 4;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        ge_x86_expand(row, (const int8_t *)ge_row(x, y), p->in_c);
        for (int32_t c = 0; c < p->out_c; c += 16) {
            const int32_t count = p->out_c - c < 16 ? p->out_c - c : 16;
            const ge_x86_sums sums = fc_s8_x86_sums(weights + (ptrdiff_t)c * steps * 4, row, steps, bias + c);
            const int32_t *const words = multiplier + c * GE_X86_WORDS(FC_S8_X86_LAW);
            const float *const rows = scale + c * GE_X86_ROWS(FC_S8_X86_LAW);
            const int32_t form = ge_x86_form(rows);
            ge_x86_store_shorts1(o + c, GE_X86_BY(FC_S8_X86_LAW, _sums)(sums, words, rows, form, &law), count, &law);
        }
    }
}
