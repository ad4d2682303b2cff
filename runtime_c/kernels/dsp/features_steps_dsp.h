/* The transform for Cortex-M4, M7 and M33, for features.c. */
#include "ge_spectrum_dsp.h"

#define GE_FEATURES_ZEROS ge_spectrum_dsp_zeros
#define GE_FEATURES_PART ge_spectrum_dsp_part
#define GE_FEATURES_MORE ge_spectrum_dsp_more
#define GE_FEATURES_LESS ge_spectrum_dsp_less
#define GE_FEATURES_HEADROOM ge_spectrum_dsp_headroom
#define GE_FEATURES_FIRST ge_spectrum_dsp_first
#define GE_FEATURES_STAGE ge_spectrum_dsp_stage
