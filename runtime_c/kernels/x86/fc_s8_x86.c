/* Fully connected layer: int8 rows of in_c features with int8 weights [out_c, in_c]: one source for every level of
 * x86-64.
 *
 * Rows become elements (ge_x86_portable.h) in scratch, four at a time as long as there are as many. The weights are read
 * once from front to back, 16 outputs at a time, as reading them takes most of the time; eight sums at a time hide the
 * latency of the products.
 */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_law.h"

#define FC_S8_X86_CHAINS 8
#define FC_S8_X86_ROWS 4 /* of the input that are multiplied together */
#define FC_S8_X86_WIDE 4 /* vectors of 16 outputs */
#define FC_S8_X86_LAW default

/* Data that all tiles of a layer share. */
typedef struct {
    const ge_fc_params *p;
    const int8_t *weights;
    const int32_t *bias;
    const int32_t *multiplier;
    const float *scale;
    ge_x86_law law;
} fc_s8_x86_layer;

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

/* Computes FC_S8_X86_ROWS rows by `wide` vectors of 16 outputs, a constant; rows of elements lie 4 * steps apart. */
static inline GE_X86_INLINE void fc_s8_x86_tile(const int8_t *w, const ge_x86_element *x, int32_t steps,
                                                const int32_t *bias, const int32_t wide, ge_x86_sums *sums) {
    const int32_t apart = 64 * steps, pitch = 4 * steps;
    ge_x86_sums acc[FC_S8_X86_ROWS * FC_S8_X86_WIDE];
    GE_X86_UNROLL
    for (int32_t i = 0; i < FC_S8_X86_ROWS * wide; i++) {
        acc[i] = ge_x86_load(bias + 16 * (i % wide));
    }
    for (int32_t step = 0; step < steps; step++) {
        GE_X86_UNROLL
        for (int32_t i = 0; i < FC_S8_X86_ROWS * wide; i++) {
            acc[i] = ge_x86_dot_four(acc[i], w + apart * (i % wide), x + pitch * (i / wide));
        }
        w += 64;
        x += 4;
    }
    GE_X86_UNROLL
    for (int32_t i = 0; i < FC_S8_X86_ROWS * wide; i++) {
        sums[i] = acc[i];
    }
}

/* Computes the outputs of a tile from c on. */
static inline GE_X86_INLINE void fc_s8_x86_outputs(const fc_s8_x86_layer *s, const ge_x86_element *x, int32_t c,
                                                   const int32_t rows, const int32_t wide, int8_t *const *to) {
    const int32_t steps = (s->p->in_c + 3) / 4, count = s->p->out_c - c < 16 ? s->p->out_c - c : 16;
    const int8_t *const w = s->weights + (ptrdiff_t)c * steps * 4;
    ge_x86_sums sums[FC_S8_X86_ROWS * FC_S8_X86_WIDE];
    if (rows == 1) {
        sums[0] = fc_s8_x86_sums(w, x, steps, s->bias + c);
    } else {
        fc_s8_x86_tile(w, x, steps, s->bias + c, wide, sums);
    }
    GE_X86_UNROLL
    for (int32_t i = 0; i < rows * wide; i++) {
        const int32_t first = c + 16 * (i % wide);
        const float *const floats = s->scale + first * GE_X86_ROWS(FC_S8_X86_LAW);
        sums[i] = GE_X86_BY(FC_S8_X86_LAW, _sums)(sums[i], s->multiplier + first * GE_X86_WORDS(FC_S8_X86_LAW), floats,
                                                  ge_x86_form(floats), &s->law);
    }
    GE_X86_UNROLL
    for (int32_t i = 0; i < rows; i++) {
        if (wide == 4) {
            int8_t *const four[4] = {to[i] + c, to[i] + c + 16, to[i] + c + 32, to[i] + c + 48};
            ge_x86_store_shorts4(four, sums + 4 * i, 1, &s->law);
        } else {
            ge_x86_store_shorts1(to[i] + c, sums[i], count, &s->law);
        }
    }
}

/* Computes four rows of out_c outputs, with four vectors of outputs at a time where registers hold all sums. */
static GE_X86_FN void fc_s8_x86_four_rows(const fc_s8_x86_layer *s, const ge_x86_element *x, int32_t out_c,
                                          int8_t *const *to) {
    int32_t c = 0;
    for (; GE_X86_FLOATS == 16 && c + 64 <= out_c; c += 64) {
        fc_s8_x86_outputs(s, x, c, FC_S8_X86_ROWS, FC_S8_X86_WIDE, to);
    }
    for (; c < out_c; c += 16) {
        fc_s8_x86_outputs(s, x, c, FC_S8_X86_ROWS, 1, to);
    }
}

static GE_X86_FN void ge_fc_s8_x86(const ge_fc_params *p, const ge_rows *x, const int8_t *weights, const int32_t *bias,
                                   const int32_t *multiplier, const float *scale, const ge_rows *out, int32_t first_row,
                                   int32_t last_row, void *scratch) {
    /* So that gcc, which may know how long the arrays are, does not warn of outputs that a layer with few does not have. */
    GE_FROM(bias);
    GE_FROM(multiplier);
    GE_FROM(scale);
    const fc_s8_x86_layer layer = {p,          weights, bias,
                                   multiplier, scale,   ge_x86_law_of(p->shift, p->out_zero_point, p->lo, p->hi)};
    ge_x86_element *const elements = (ge_x86_element *)scratch;
    int32_t rows = 0;
    for (int32_t y = first_row; y < last_row; y += rows) {
        int8_t *to[FC_S8_X86_ROWS];
        rows = p->rows < FC_S8_X86_ROWS || last_row - y < FC_S8_X86_ROWS ? 1 : FC_S8_X86_ROWS;
        for (int32_t i = 0; i < rows; i++) {
            to[i] = (int8_t *)ge_row(out, y + i);
            ge_x86_expand(elements + i * ((p->in_c + 3) / 4 * 4), (const int8_t *)ge_row(x, y + i), p->in_c);
        }
        if (rows == FC_S8_X86_ROWS) {
            fc_s8_x86_four_rows(&layer, elements, p->out_c, to);
        }
        for (int32_t c = 0; rows == 1 && c < p->out_c; c += 16) {
            fc_s8_x86_outputs(&layer, elements, c, 1, 1, to);
        }
    }
}
