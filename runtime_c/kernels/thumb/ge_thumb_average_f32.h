/* Means of float32, in the names of ge_thumb_average_s16.h: a sum divided by the number of elements that count. */
#include "ge_float.h"

#define GE_MEAN_PARAMS ge_avgpool_f32_params
#define GE_MEAN_ELEMENT float
#define GE_MEAN_SUM float
#define GE_MEAN_CONSTANTS
#define GE_MEAN_MULTIPLIERS const void *none
#define GE_MEAN_TABLE NULL
#define GE_MEAN_LAW float
#define GE_MEAN_LAW_OF(p, inside, down, across) ((void)none, (float)((down) * (across)))
#define GE_MEAN_OF(p, sum, law) ge_clamp_f32((sum) / (law), (p)->lo, (p)->hi)
