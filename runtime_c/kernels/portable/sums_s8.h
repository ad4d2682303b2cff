/* Sums of products of int8 with int8 weights, for kernels with one source for all types.
 *
 * GE_CONSTANTS declares the constants of a kernel under the names that the other macros use. GE_DOT adds `count`
 * products to a sum, and GE_FINISH makes the output of a channel of its sum. */
#include "ge_dot_s8.h"

#define GE_PARAMS(op) op##_params
#define GE_ELEMENT int8_t
#define GE_WEIGHT int8_t
#define GE_SUM int32_t
#define GE_CONSTANTS const int8_t *weights, const int32_t *bias, const int32_t *multiplier
#define GE_WEIGHT_ZERO(channel) 0
#define GE_DOT(p, sum, x, w, count, weight_zero) ((sum) + ge_dot_s8(x, w, count, weight_zero))
#define GE_FINISH(p, sum, channel)                                                                                     \
    ge_requantize(sum, multiplier, channel, (p)->shift, (p)->out_zero_point, (p)->lo, (p)->hi)
