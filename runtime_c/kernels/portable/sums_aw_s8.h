/* Sums of products of int8 with int8 weights that have a zero point per output channel, under the names of
 * sums_s8.h. */
#include "sums_s8.h"

#undef GE_CONSTANTS
#undef GE_WEIGHT_ZERO
#define GE_CONSTANTS                                                                                                   \
    const int8_t *weights, const int32_t *bias, const int32_t *multiplier, const int32_t *weight_zero_point
#define GE_WEIGHT_ZERO(channel) weight_zero_point[channel]
