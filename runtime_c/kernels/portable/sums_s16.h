/* Sums of products of int16 with int8 weights, under the names of sums_s8.h. */
#include "ge_dot_s16.h"
#include "ge_wide.h"

#define GE_PARAMS(op) op##_s16_params
#define GE_ELEMENT int16_t
#define GE_WEIGHT int8_t
#define GE_SUM int64_t
#define GE_CONSTANTS const GE_WEIGHT *weights, const int64_t *bias, const int32_t *multiplier
#define GE_WEIGHT_ZERO(channel) 0
#define GE_DOT(p, sum, x, w, count, weight_zero) ((sum) + ge_dot_s16(x, w, count, (p)->chunk))
#define GE_FINISH(p, sum, channel)                                                                                     \
    (int16_t)ge_requantize_wide(sum, multiplier[channel], (p)->shift, (p)->out_zero_point, (p)->lo, (p)->hi)
