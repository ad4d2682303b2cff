/* Arm MPS2, image AN386: Cortex-M4 with FPU (QEMU): boot. */
#include "../common/startup.h"

#include "../common/reset_fpu.h"

#include "../common/fault_v7m.h"
