/* Softmax of int16 vectors to int16 with scale 1/32768 and zero point 0: the portable truth.
 * exp(-d) is the product of two table entries, of the high and of the low byte of d. */
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

static void softmax_s16_vector(const int16_t *x, const uint32_t *table, int16_t *o, int32_t n) {
    const int32_t max = softmax_s16_max(x, n);
    uint64_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += softmax_s16_exp(table, max - x[i]);
    }
    for (int32_t i = 0; i < n; i++) {
        const uint64_t probability = (((uint64_t)softmax_s16_exp(table, max - x[i]) << 15) + sum / 2u) / sum;
        o[i] = (int16_t)(probability < 32767u ? probability : 32767u);
    }
}

static void ge_softmax_s16(const ge_softmax_s16_params *p, const ge_rows *x, const uint32_t *table, const ge_rows *out,
                           int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int16_t *v = (const int16_t *)ge_row(x, y);
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t k = 0; k < p->vectors; k++) {
            softmax_s16_vector(v + k * p->n, table, o + k * p->n, p->n);
        }
    }
}
