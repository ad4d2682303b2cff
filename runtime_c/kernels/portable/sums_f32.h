/* Sums of products of float32 with float32 weights, under the names of sums_s8.h. A sum begins with the bias, and the
 * products are added one by one. */
#include "ge_dot_f32.h"
#include "ge_float.h"

#define GE_PARAMS(op) op##_f32_params
#define GE_ELEMENT float
#define GE_WEIGHT float
#define GE_SUM float
#define GE_CONSTANTS const float *weights, const float *bias
#define GE_WEIGHT_ZERO(channel) 0
#define GE_DOT(p, sum, x, w, count, weight_zero) ge_dot_f32(sum, x, w, count)
#define GE_FINISH(p, sum, channel) ge_clamp_f32(sum, (p)->lo, (p)->hi)
