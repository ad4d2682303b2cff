/* Softmax of int8 vectors with the bits of TensorFlow Lite Micro; exp comes from a table: the portable truth. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"
#include "ge_requantize_tflite.h"

static int32_t softmax_tflite_s8_max(const int8_t *x, int32_t n) {
    int32_t max = x[0];
    for (int32_t i = 1; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

/* The sum of exponentials with 12 integer bits; below 2^31, as n is below 4096. */
static int32_t softmax_tflite_s8_sum(const int8_t *x, int32_t n, int32_t max, const int32_t *table) {
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += ge_rounding_divide(table[max - x[i]], 12);
    }
    return sum;
}

/* 4 x and 2 x, saturating. */
static int32_t softmax_tflite_s8_times(int32_t x, int32_t factor) {
    const int64_t y = (int64_t)x * factor;
    return (int32_t)(y > INT32_MAX ? INT32_MAX : (y < INT32_MIN ? INT32_MIN : y));
}

/* 1 / (sum << zeros) with sum << zeros in [2^31, 2^32): three Newton steps from 48/17 - 32/17 d. */
static int32_t softmax_tflite_s8_reciprocal(uint32_t sum, int32_t zeros) {
    const int64_t fraction = (int64_t)(sum << zeros) - INT32_MAX - 1;
    const int32_t half = (int32_t)((fraction + INT32_MAX + 1) / 2);
    int32_t x = 1515870810 + ge_doubling_high_mul(half, -1010580540);
    for (int32_t i = 0; i < 3; i++) {
        const int32_t error = (1 << 29) - ge_doubling_high_mul(half, x);
        x += softmax_tflite_s8_times(ge_doubling_high_mul(x, error), 4);
    }
    return softmax_tflite_s8_times(x, 2);
}

static void softmax_tflite_s8_vector(const int8_t *x, int32_t n, const int32_t *table, int8_t *o) {
    const int32_t max = softmax_tflite_s8_max(x, n);
    const int32_t sum = softmax_tflite_s8_sum(x, n, max, table);
    int32_t zeros = 0;
    while (((uint32_t)sum << zeros) < 0x80000000u) {
        zeros++;
    }
    const int32_t scale = softmax_tflite_s8_reciprocal((uint32_t)sum, zeros);
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
