/* Features of type float32, for features.c. */
#define GE_ELEMENT float
#define GE_SCALE float
#define GE_OFFSET float
#define GE_FEATURE(p, v, scale, offset) ((float)(v) * (scale) + (offset))
