/* BBC micro:bit, nRF51822: Cortex-M0, 256 KB flash, 16 KB RAM (QEMU): boot. */
#include "../common/startup.h"

#include "../common/reset.h"

#include "../common/fault_v6m.h"
