/* Product of two float32 numbers, for pair.c. */
#include "ge_float.h"

#define GE_PAIR_PARAMS ge_mul_f32_params
#define GE_ELEMENT float
#define GE_PAIR(p, a, b) ge_clamp_f32((a) * (b), p->lo, p->hi)
