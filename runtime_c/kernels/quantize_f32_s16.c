/* float32 to int16: clamp(round(x / scale) + zero_point), ties to even, nan gives the zero point. */
#include "ge.h"
#include "ge_params.h"

/* Exact for |x| < 2^22: the difference from the truncated value has no rounding. */
static int32_t quantize_f32_s16_round(float x) {
    const int32_t whole = (int32_t)x;
    const float rest = x - (float)whole;
    const int32_t odd = whole % 2 != 0;
    if (rest > 0.5f || (rest >= 0.5f && odd)) {
        return whole + 1;
    }
    if (rest < -0.5f || (rest <= -0.5f && odd)) {
        return whole - 1;
    }
    return whole;
}

/* The clamp comes first, which changes nothing because the limits are whole numbers. */
static int16_t quantize_f32_s16_one(const ge_edge_params *p, float x) {
    const float lo = (float)(-32768 - p->zero_point);
    const float hi = (float)(32767 - p->zero_point);
    const float steps = x / p->scale;
    int32_t rounded = 0; /* stays for nan, which no comparison admits */
    if (steps <= lo) {
        rounded = -32768 - p->zero_point;
    } else if (steps >= hi) {
        rounded = 32767 - p->zero_point;
    } else if (steps > lo) {
        rounded = quantize_f32_s16_round(steps);
    }
    return (int16_t)(rounded + p->zero_point);
}

static void ge_quantize_f32_s16(const ge_edge_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                                int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const float *row = (const float *)ge_row(x, y);
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t i = 0; i < p->row; i++) {
            o[i] = quantize_f32_s16_one(p, row[i]);
        }
    }
}
