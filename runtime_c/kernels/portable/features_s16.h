/* Features of type int16, for features.c. */
#define GE_ELEMENT int16_t
#define GE_SCALE int32_t
#define GE_OFFSET int64_t
#define GE_FEATURE(p, v, scale, offset) (int16_t)features_limited((v) * (int64_t)(scale) + (offset), p)
