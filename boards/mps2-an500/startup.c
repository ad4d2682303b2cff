/* Arm MPS2, image AN500: Cortex-M7 with double-precision FPU (QEMU): boot. */
#include "../common/startup.h"

#include "../common/reset_fpu.h"

#include "../common/fault_v7m.h"
