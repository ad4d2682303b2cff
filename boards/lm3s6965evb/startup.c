/* Stellaris LM3S6965 evaluation board: Cortex-M3, 256 KB flash, 64 KB RAM (QEMU): boot and clock. */
#include "../common/startup.h"

#include "../common/reset.h"

#include "../common/fault_v7m.h"
