/* Softmax of int8 vectors with the bits of TensorFlow Lite Micro, in portable C. The exponentials come from a table. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"
#include "ge_requantize_tflite.h"
#include "ge_softmax_tflite.h"

static int32_t softmax_tflite_s8_max(const int8_t *x, int32_t n) {
    int32_t max = x[0];
    for (int32_t i = 1; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

/* Returns the sum of the exponentials, with 12 integer bits. It is below 2^31, because n is below 4096. */
static int32_t softmax_tflite_s8_sum(const int8_t *x, int32_t n, int32_t max, const int32_t *table) {
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += ge_rounding_divide(table[max - x[i]], 12);
    }
    return sum;
}

static void softmax_tflite_s8_vector(const int8_t *x, int32_t n, const int32_t *table, int8_t *o) {
    const int32_t max = softmax_tflite_s8_max(x, n);
    const int32_t sum = softmax_tflite_s8_sum(x, n, max, table);
    const int32_t zeros = ge_softmax_zeros(sum);
    const int32_t scale = ge_softmax_reciprocal((uint32_t)sum, zeros);
    for (int32_t i = 0; i < n; i++) {
        const int32_t product = ge_doubling_high_mul(scale, table[max - x[i]]);
        o[i] = (int8_t)ge_clamp(ge_rounding_divide(product, 35 - zeros) - 128, -128, 127);
    }
}

static void ge_softmax_tflite_s8(const ge_softmax_params *p, const ge_rows *x, const int32_t *table, const ge_rows *out,
                                 int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        for (int32_t k = 0; k < p->vectors; k++) {
            softmax_tflite_s8_vector((const int8_t *)ge_row(x, y) + k * p->n, p->n, table,
                                     (int8_t *)ge_row(out, y) + k * p->n);
        }
    }
}
