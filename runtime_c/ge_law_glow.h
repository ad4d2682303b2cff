/* The law of Glow's bundles, in the names of ge_law.h. The names of kernels with it end in _glow: ge_conv2d_s8_glow. */
#include "ge_fixedpoint.h"
#include "ge_requantize_glow.h"

#define ge_requantize ge_requantize_glow
#define ge_requantize_each ge_requantize_each_glow
