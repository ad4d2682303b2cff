/* Sum (or difference) of two int8 numbers, each with its own scale, for pair.c. */
#include "ge_fixedpoint.h"

#define GE_PAIR_PARAMS ge_add_broadcast_params
#define GE_ELEMENT int8_t
#define GE_PAIR(p, a, b) ge_requantize_pair(a, b, p->multiplier_a, p->multiplier_b, p->offset, p->shift, p->lo, p->hi)
