/* The law of TensorFlow Lite Micro, under the names of ge_law.h. Kernels with this law have names that end in _tflite:
 * ge_conv2d_s8_tflite. */
#include "ge_fixedpoint.h"
#include "ge_requantize_tflite.h"

#define ge_requantize ge_requantize_tflite
#define ge_requantize_each ge_requantize_each_tflite
