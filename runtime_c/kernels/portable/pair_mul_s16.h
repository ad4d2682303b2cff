/* Product of two int16 numbers, for pair.c. */
#include "ge_wide.h"

#define GE_PAIR_PARAMS ge_mul_s16_params
#define GE_ELEMENT int16_t
#define GE_PAIR(p, a, b)                                                                                               \
    (int16_t)ge_requantize_wide((int64_t)((a) - p->zero_point_a) * ((b) - p->zero_point_b), p->multiplier, p->shift,   \
                                p->out_zero_point, p->lo, p->hi)
