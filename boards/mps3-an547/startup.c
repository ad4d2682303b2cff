/* Arm MPS3, image AN547: Cortex-M55 with Helium, secure state (QEMU): boot. */
#include "../common/startup.h"

#include "../common/reset_fpu.h"

#include "../common/fault_v7m.h"
