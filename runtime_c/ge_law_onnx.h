/* The law of ONNX QuantizeLinear, under the names of ge_law.h. Kernels with this law have names that end in _onnx:
 * ge_conv2d_s8_onnx. */
#include "ge_fixedpoint.h"
#include "ge_requantize_onnx.h"

#define ge_requantize ge_requantize_onnx
#define ge_requantize_each ge_requantize_each_onnx
