/* A function of each float32 number, in portable C. The functions are numbered as in FUNCTIONS of
 * glowembed/ops/float32.py. */
#include "ge.h"
#include "ge_float.h"
#include "ge_params.h"

static float unary_f32_positive(float x) {
    return x > 0.0f ? x : 0.0f;
}

static float unary_f32_negative(float x) {
    return x < 0.0f ? x : 0.0f;
}

static float unary_f32_one(int32_t function, float x, float a, float b) {
    switch (function) {
    case 0: /* Abs */
        return ge_abs_f32(x);
    case 1: /* Ceil */
        return ge_ceil_f32(x);
    case 2: /* Celu */
        return unary_f32_positive(x) + a * (ge_exp_f32(unary_f32_negative(x) / a) - 1.0f);
    case 3: /* Clip */
        return ge_clamp_f32(x, a, b);
    case 4: /* Elu */
        return x < 0.0f ? a * (ge_exp_f32(x) - 1.0f) : x;
    case 5: /* Erf */
        return ge_erf_f32(x);
    case 6: /* Exp */
        return ge_exp_f32(x);
    case 7: /* Floor */
        return ge_floor_f32(x);
    case 8: /* Gelu */
        return 0.5f * x * (1.0f + ge_erf_f32(x * 0.707106781f));
    case 9: /* GeluTanh */
        return 0.5f * x * (1.0f + ge_tanh_f32(0.797884561f * (x + 0.044715f * x * x * x)));
    case 10: /* HardSigmoid */
        return ge_clamp_f32(a * x + b, 0.0f, 1.0f);
    case 11: /* HardSwish */
        return x * ge_clamp_f32(0.166666667f * x + 0.5f, 0.0f, 1.0f);
    case 12: /* LeakyRelu */
        return x < 0.0f ? a * x : x;
    case 13: /* Log */
        return ge_log_f32(x);
    case 14: /* Mish */
        return x * ge_tanh_f32(ge_softplus_f32(x));
    case 15: /* Neg */
        return -x;
    case 16: /* Reciprocal */
        return 1.0f / x;
    case 17: /* Round */
        return ge_round_f32(x);
    case 18: /* Selu */
        return b * (x < 0.0f ? a * (ge_exp_f32(x) - 1.0f) : x);
    case 19: /* Sigmoid */
        return ge_sigmoid_f32(x);
    case 20: /* Softplus */
        return ge_softplus_f32(x);
    case 21: /* Softsign */
        return x / (1.0f + ge_abs_f32(x));
    case 22: /* Sqrt */
        return ge_sqrt_f32(x);
    case 23: /* Tanh */
        return ge_tanh_f32(x);
    case 24: /* ThresholdedRelu */
        return x > a ? x : 0.0f;
    default:
        return x;
    }
}

static void ge_unary_f32(const ge_unary_f32_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                         int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const float *row = (const float *)ge_row(x, y);
        float *o = (float *)ge_row(out, y);
        for (int32_t i = 0; i < p->row; i++) {
            o[i] = unary_f32_one(p->function, row[i], p->a, p->b);
        }
    }
}
