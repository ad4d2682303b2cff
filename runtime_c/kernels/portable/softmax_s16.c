/* Softmax of int16 vectors to int16, in portable C.
 * exp(-d) is the product of two table entries, one for the high and one for the low byte of d. */
#include "ge.h"
#include "ge_params.h"

static int32_t softmax_s16_max(const int16_t *x, int32_t n) {
    int32_t max = x[0];
    for (int32_t i = 1; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

/* exp(-distance) * 2^31. */
static uint32_t softmax_s16_exp(const uint32_t *table, int32_t distance) {
    const uint64_t product = (uint64_t)table[distance >> 8] * table[256 + (distance & 255)];
    return (uint32_t)((product + ((uint64_t)1 << 30)) >> 31);
}

/* sum * scale / 2^30, rounded down; the product itself may have 78 bits. */
static uint64_t softmax_s16_scaled(uint64_t sum, uint32_t scale) {
    return (sum >> 30) * scale + (((sum & ((1u << 30) - 1u)) * scale) >> 30);
}

static void softmax_s16_vector(const ge_softmax_s16_params *p, const int16_t *x, const uint32_t *table, int16_t *o) {
    const int32_t n = p->n;
    const int32_t max = softmax_s16_max(x, n);
    const uint64_t top = (uint64_t)(32767 - p->zero_point);
    uint64_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += softmax_s16_exp(table, max - x[i]);
    }
    sum = softmax_s16_scaled(sum, (uint32_t)p->sum_scale);
    for (int32_t i = 0; i < n; i++) {
        const uint64_t e = softmax_s16_exp(table, max - x[i]);
        const uint64_t probability = (e * (uint32_t)p->steps + sum / 2u) / sum;
        o[i] = (int16_t)((int32_t)(probability < top ? probability : top) + p->zero_point);
    }
}

static void ge_softmax_s16(const ge_softmax_s16_params *p, const ge_rows *x, const uint32_t *table, const ge_rows *out,
                           int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int16_t *v = (const int16_t *)ge_row(x, y);
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t k = 0; k < p->vectors; k++) {
            softmax_s16_vector(p, v + k * p->n, table, o + k * p->n);
        }
    }
}
