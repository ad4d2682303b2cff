/* Means of int16, in the names of average_s8.h. The zero point is subtracted from each element, so that sums fit int32. */
#include "ge_wide.h"

#define GE_PARAMS ge_avgpool_params
#define GE_ELEMENT int16_t
#define GE_SUM int32_t
#define GE_CONSTANTS const int32_t *multiplier,
#define GE_PASSED multiplier,
#define GE_TERM(p, element) ((element) - (p)->in_zero_point)
#define GE_TOP(p) ((p)->count_top)
#define GE_BOTTOM(p) ((p)->count_bottom)
#define GE_LEFT(p) ((p)->count_left)
#define GE_RIGHT(p) ((p)->count_right)
#define GE_INSIDE(count) 0
#define GE_MEAN(p, sum, elements, rows, columns)                                                                       \
    (int16_t)ge_requantize_wide(                                                                                       \
        sum, multiplier[((rows) - (p)->min_rows) * (p)->table_columns - (p)->min_columns + (columns)], (p)->shift,     \
        (p)->out_zero_point, (p)->lo, (p)->hi)
