/* Means of int8, for kernels with one source for all types. The zero points are subtracted from the finished sum.
 *
 * GE_TERM is what an element adds to a sum, and GE_ZERO is subtracted from the finished sum. GE_INSIDE is the number of
 * elements inside the input if GE_ZERO needs it. GE_DIVISOR is computed once for a window in which `columns` columns
 * count; `first` is the index of the multiplier for 0 columns. GE_MEAN makes an output of a sum. */
#define GE_ELEMENT int8_t
#define GE_TERM(p, element) (element)
#define GE_INSIDE(count) (count)
#define GE_ZERO(p, elements) ((elements) * (p)->in_zero_point)
#define GE_DIVISOR(first, columns) (columns)
#define GE_MEAN(p, sum, first, divisor)                                                                                \
    ge_requantize(sum, multiplier, (first) + (divisor), (p)->shift, (p)->out_zero_point, (p)->lo, (p)->hi)
