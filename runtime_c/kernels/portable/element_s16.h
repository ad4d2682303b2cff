/* The element type int16, for kernels with one source for all types. */
#define GE_ELEMENT int16_t
#define GE_ELEMENT_LEAST INT16_MIN
#define GE_ELEMENT_MOST INT16_MAX
