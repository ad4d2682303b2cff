/* The element type int8, for kernels with one source for all types. */
#define GE_ELEMENT int8_t
#define GE_ELEMENT_LEAST INT8_MIN
#define GE_ELEMENT_MOST INT8_MAX
