/* The steps of the transform in portable C, for features.c. */
#include "ge_spectrum.h"

#define GE_FEATURES_ZEROS ge_spectrum_zeros
#define GE_FEATURES_COSINE(x, w) ge_spectrum_part(x, (w)[0])
#define GE_FEATURES_SINE(x, w) ge_spectrum_part(x, (w)[1])
#define GE_FEATURES_HEADROOM ge_spectrum_headroom
#define GE_FEATURES_FIRST ge_spectrum_first
#define GE_FEATURES_STAGE ge_spectrum_stage
