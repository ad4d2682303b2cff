/* Softmax of int8 vectors to int8, in portable C. */
#include "ge.h"
#include "ge_params.h"

static int32_t softmax_s8_max(const int8_t *x, int32_t n) {
    int32_t max = x[0];
    for (int32_t i = 1; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

/* Returns the sum of the exponentials, at most 2^31: the table's entries are small enough for n of them. */
static uint32_t softmax_s8_sum(const int8_t *x, int32_t n, int32_t max, const uint32_t *table) {
    uint32_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += table[max - x[i]];
    }
    return sum;
}

static void ge_softmax_s8(const ge_softmax_params *p, const ge_rows *x, const uint32_t *table, const ge_rows *out,
                          int32_t first_row, int32_t last_row, void *scratch) {
    const uint32_t steps = (uint32_t)p->steps;
    const uint32_t top = (uint32_t)(127 - p->zero_point);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *v = (const int8_t *)ge_row(x, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t k = 0; k < p->vectors; k++) {
            const int32_t max = softmax_s8_max(v, p->n);
            const uint64_t scaled = (uint64_t)softmax_s8_sum(v, p->n, max, table) * (uint32_t)p->sum_scale;
            const uint32_t sum = (uint32_t)((scaled + (1u << 29)) >> 30);
            for (int32_t i = 0; i < p->n; i++) {
                const uint32_t probability = (steps * table[max - v[i]] + sum / 2u) / sum;
                o[i] = (int8_t)((int32_t)(probability < top ? probability : top) + p->zero_point);
            }
            v += p->n;
            o += p->n;
        }
    }
}
