/* The element type float32, for kernels with one source for all types. */
#define GE_ELEMENT float
#define GE_ELEMENT_LEAST -3.4028234663852886e38f
#define GE_ELEMENT_MOST 3.4028234663852886e38f
