/* Arm MPS2, image AN385: Cortex-M3 (QEMU): boot. */
#include "../common/startup.h"

#include "../common/reset.h"

#include "../common/fault_v7m.h"
