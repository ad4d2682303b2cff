/* Means of int8, for kernels that are one text for all types. The division is a multiplication: there is one multiplier for each
 * number of rows and columns that can count. Zero points are subtracted from a whole sum.
 *
 * GE_CONSTANTS declares the constants of a kernel and GE_PASSED hands them on. GE_TERM is what an element adds to a sum. Rows from
 * GE_TOP to GE_BOTTOM - 1 and columns from GE_LEFT to GE_RIGHT - 1 count. GE_INSIDE is a number of elements that exist, where GE_MEAN needs it: GE_MEAN makes an
 * output from a sum, the number of its elements, and the rows and columns that count. */
#define GE_PARAMS ge_avgpool_params
#define GE_ELEMENT int8_t
#define GE_SUM int32_t
#define GE_CONSTANTS const int32_t *multiplier,
#define GE_PASSED multiplier,
#define GE_TERM(p, element) (element)
#define GE_TOP(p) ((p)->count_top)
#define GE_BOTTOM(p) ((p)->count_bottom)
#define GE_LEFT(p) ((p)->count_left)
#define GE_RIGHT(p) ((p)->count_right)
#define GE_INSIDE(count) (count)
#define GE_MEAN(p, sum, elements, rows, columns)                                                                       \
    ge_requantize((sum) - (elements) * (p)->in_zero_point, multiplier,                                                 \
                  ((rows) - (p)->min_rows) * (p)->table_columns - (p)->min_columns + (columns), (p)->shift,            \
                  (p)->out_zero_point, (p)->lo, (p)->hi)
