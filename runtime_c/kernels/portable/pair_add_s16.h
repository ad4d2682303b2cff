/* Sum (or difference) of two int16 numbers, each with its own scale, for pair.c. */
#include "ge_wide.h"

#define GE_PAIR_PARAMS ge_add_s16_params
#define GE_ELEMENT int16_t
#define GE_PAIR(p, a, b)                                                                                               \
    (int16_t)ge_requantize_wide_pair((a) - p->zero_point_a, (b) - p->zero_point_b, p->multiplier_a, p->multiplier_b,   \
                                     p->shift, p->out_zero_point, p->lo, p->hi)
