/* Declares kernels with one common signature. The host wraps kernels in it (run/kernel.py). */
#ifndef GE_KERNEL_CALL_H
#define GE_KERNEL_CALL_H

#include "ge.h"

void call(int32_t number, const void *params, const ge_rows *tensors, const void *const *constants, int32_t first_row,
          int32_t last_row, void *scratch);

#endif
