/* The law of ONNX QuantizeLinear, in the names of ge_law.h. The names of kernels with it end in _onnx: ge_conv2d_s8_onnx. */
#include "ge_fixedpoint.h"
#include "ge_requantize_onnx.h"

#define ge_requantize ge_requantize_onnx
#define ge_requantize_each ge_requantize_each_onnx
