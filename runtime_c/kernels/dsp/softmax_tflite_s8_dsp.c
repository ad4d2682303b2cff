/* Softmax of int8 vectors with the bits of TensorFlow Lite Micro; with exp from a table, for Cortex-M4, M7 and M33.
 *
 * No exponential is negative, so both roundings are an addition and a shift. Cost: 26 cycles per element and 250 per
 * vector; the portable kernel takes 72 per element. */
#include "ge.h"
#include "ge_dsp_exp.h"
#include "ge_params.h"
#include "ge_softmax_tflite.h"

/* Returns an exponential with 12 integer bits. */
static inline uint32_t softmax_tflite_s8_dsp_term(int32_t e) {
    return ((uint32_t)e + 2048u) >> 12;
}

/* Returns the sum of exponentials, which is below 2^31, as n is below 4096. */
static int32_t softmax_tflite_s8_dsp_sum(const int8_t *x, int32_t n, int32_t max, const int32_t *table) {
    uint32_t sum = 0;
    for (; n >= 4; n -= 4) {
        int32_t e[4];
        GE_DSP_EXP_FOUR(e, x, max, table);
        sum += softmax_tflite_s8_dsp_term(e[0]) + softmax_tflite_s8_dsp_term(e[1]);
        sum += softmax_tflite_s8_dsp_term(e[2]) + softmax_tflite_s8_dsp_term(e[3]);
        x += 4;
    }
    for (int32_t i = 0; i < n; i++) {
        sum += softmax_tflite_s8_dsp_term(table[max - x[i]]);
    }
    return (int32_t)sum;
}

/* Returns 256 * e / sum, at most 255, less 128; `twice`: twice the reciprocal, 0 where that is too small for any output
 * but the lowest. */
static inline int8_t softmax_tflite_s8_dsp_one(uint32_t twice, uint32_t right, int32_t e) {
    const uint32_t product = (uint32_t)(((uint64_t)twice * (uint32_t)e + 0x80000000u) >> 32);
    const uint32_t y = (product + (1u << (right - 1u))) >> right;
    return (int8_t)((int32_t)(y < 255u ? y : 255u) - 128);
}

static void softmax_tflite_s8_dsp_outputs(uint32_t twice, uint32_t right, const int8_t *x, int32_t n, int32_t max,
                                          const int32_t *table, int8_t *o) {
    for (; n >= 4; n -= 4) {
        int32_t e[4];
        GE_DSP_EXP_FOUR(e, x, max, table);
        o[0] = softmax_tflite_s8_dsp_one(twice, right, e[0]);
        o[1] = softmax_tflite_s8_dsp_one(twice, right, e[1]);
        o[2] = softmax_tflite_s8_dsp_one(twice, right, e[2]);
        o[3] = softmax_tflite_s8_dsp_one(twice, right, e[3]);
        x += 4;
        o += 4;
    }
    for (int32_t i = 0; i < n; i++) {
        o[i] = softmax_tflite_s8_dsp_one(twice, right, table[max - x[i]]);
    }
}

static void softmax_tflite_s8_dsp_vector(const int8_t *x, int32_t n, const int32_t *table, int8_t *o) {
    const int32_t max = ge_dsp_max(x, n);
    const int32_t sum = softmax_tflite_s8_dsp_sum(x, n, max, table);
    const int32_t zeros = ge_softmax_zeros(sum);
    const uint32_t twice = 2u * (uint32_t)ge_softmax_reciprocal((uint32_t)sum, zeros);
    const int32_t right = 35 - zeros;
    softmax_tflite_s8_dsp_outputs(right < 32 ? twice : 0u, right < 32 ? (uint32_t)right : 31u, x, n, max, table, o);
}

static void ge_softmax_tflite_s8_dsp(const ge_softmax_params *p, const ge_rows *x, const int32_t *table,
                                     const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *v = (const int8_t *)ge_row(x, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t k = 0; k < p->vectors; k++) {
            softmax_tflite_s8_dsp_vector(v, p->n, table, o);
            v += p->n;
            o += p->n;
        }
    }
}
