/* The steps of the transform in portable C, for features.c. */
#include "ge_spectrum.h"

#define GE_FEATURES_ZEROS ge_spectrum_zeros
#define GE_FEATURES_PART ge_spectrum_part
#define GE_FEATURES_MORE ge_spectrum_more
#define GE_FEATURES_LESS ge_spectrum_less
#define GE_FEATURES_HEADROOM ge_spectrum_headroom
#define GE_FEATURES_FIRST ge_spectrum_first
#define GE_FEATURES_STAGE ge_spectrum_stage
