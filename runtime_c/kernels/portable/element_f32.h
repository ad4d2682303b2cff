/* float32 as the type of the elements, for kernels that are one text for all types. */
#define GE_ELEMENT float
#define GE_ELEMENT_LEAST -3.4028234663852886e38f
#define GE_ELEMENT_MOST 3.4028234663852886e38f
