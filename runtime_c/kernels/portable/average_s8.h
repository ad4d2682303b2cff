/* Means of int8, for kernels that are one text for all types. Zero points are subtracted from a whole sum.
 *
 * GE_TERM is what an element adds to a sum, and GE_ZERO what a whole sum is too large by; GE_INSIDE is a number of
 * elements that exist, where GE_ZERO uses it. GE_DIVISOR is found once for a window whose columns that count are
 * `columns`, `first` being the multiplier for 0 of them; GE_MEAN makes an output from a sum. */
#define GE_ELEMENT int8_t
#define GE_TERM(p, element) (element)
#define GE_INSIDE(count) (count)
#define GE_ZERO(p, elements) ((elements) * (p)->in_zero_point)
#define GE_DIVISOR(first, columns) (columns)
#define GE_MEAN(p, sum, first, divisor)                                                                                \
    ge_requantize(sum, multiplier, (first) + (divisor), (p)->shift, (p)->out_zero_point, (p)->lo, (p)->hi)
