/* Means of int16, under the names of average_s8.h. The zero point is subtracted from each element, so that sums fit in
 * int32.
 */
#include "ge_wide.h"

#define GE_ELEMENT int16_t
#define GE_TERM(p, element) ((element) - (p)->in_zero_point)
#define GE_INSIDE(count) 0
#define GE_ZERO(p, elements) (0 * (elements))
#define GE_DIVISOR(first, columns) (multiplier[(first) + (columns)])
#define GE_MEAN(p, sum, first, divisor)                                                                                \
    (int16_t)ge_requantize_wide(sum, divisor, (p)->shift, (p)->out_zero_point, (p)->lo, (p)->hi)
