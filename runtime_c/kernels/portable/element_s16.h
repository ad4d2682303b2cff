/* int16 as the type of the elements, for kernels that are one text for all types. */
#define GE_ELEMENT int16_t
#define GE_ELEMENT_LEAST INT16_MIN
#define GE_ELEMENT_MOST INT16_MAX
