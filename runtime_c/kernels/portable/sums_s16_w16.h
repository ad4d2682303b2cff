/* Sums of products of int16 with int16 weights, under the names of sums_s8.h. */
#include "sums_s16.h"

#undef GE_WEIGHT
#undef GE_DOT
#define GE_WEIGHT int16_t
#define GE_DOT(p, sum, x, w, count, weight_zero) ((sum) + ge_dot_s16_w16(x, w, count, (p)->chunk))
