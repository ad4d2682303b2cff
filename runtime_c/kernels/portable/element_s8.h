/* int8 as the type of the elements, for kernels that are one text for all types. */
#define GE_ELEMENT int8_t
#define GE_ELEMENT_LEAST INT8_MIN
#define GE_ELEMENT_MOST INT8_MAX
