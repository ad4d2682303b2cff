/* The law of Glow's bundles, under the names of ge_law.h. Kernels with this law have names that end in _glow:
 * ge_conv2d_s8_glow. */
#include "ge_fixedpoint.h"
#include "ge_requantize_glow.h"

#define ge_requantize ge_requantize_glow
#define ge_requantize_each ge_requantize_each_glow
