/* Means of int16 for avgpool_wide_thumb.c: a sum less its zero points times a multiplier for the number of elements that count. */
#include "ge_wide.h"

#define GE_MEAN_PARAMS ge_avgpool_params
#define GE_MEAN_ELEMENT int16_t
#define GE_MEAN_SUM int32_t
#define GE_MEAN_CONSTANTS const int32_t *multiplier,
#define GE_MEAN_MULTIPLIERS const int32_t *multiplier
#define GE_MEAN_TABLE multiplier
#define GE_MEAN_LAW ge_thumb_mean
#define GE_MEAN_LAW_OF(p, inside, down, across)                                                                        \
    {(inside) * (p)->in_zero_point,                                                                                    \
     multiplier[((down) - (p)->min_rows) * (p)->table_columns + (across) - (p)->min_columns]}
#define GE_MEAN_OF(p, sum, law)                                                                                        \
    (int16_t)ge_requantize_wide((sum) - (law).zero, (law).multiplier, (p)->shift, (p)->out_zero_point, (p)->lo, (p)->hi)
