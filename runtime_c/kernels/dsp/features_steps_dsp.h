/* The transform for Cortex-M4, M7 and M33, for features.c. */
#include "ge_spectrum_dsp.h"

#define GE_FEATURES_ZEROS ge_spectrum_dsp_zeros
#define GE_FEATURES_COSINE(x, w) ge_spectrum_dsp_low(x, (int32_t)*(const ge_word *)(const void *)(w))
#define GE_FEATURES_SINE(x, w) ge_spectrum_dsp_high(x, (int32_t)*(const ge_word *)(const void *)(w))
#define GE_FEATURES_HEADROOM ge_spectrum_dsp_headroom
#define GE_FEATURES_FIRST ge_spectrum_dsp_first
#define GE_FEATURES_STAGE ge_spectrum_dsp_stage
