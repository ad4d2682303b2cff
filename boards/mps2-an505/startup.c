/* Arm MPS2, image AN505: Cortex-M33 with FPU, secure state (QEMU): boot. */
#include "../common/startup.h"

#include "../common/reset_fpu.h"

#include "../common/fault_v7m.h"
