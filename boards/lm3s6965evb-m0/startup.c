/* Stellaris LM3S6965 memories around a Cortex-M0: 256 KB flash, 64 KB RAM (QEMU only): boot. */
#include "../common/startup.h"

#include "../common/reset.h"

#include "../common/fault_v6m.h"
