/* nRF51 with 16 MB flash and 16 MB RAM: a Cortex-M0 for models of any size (QEMU only): boot. */
#include "../common/startup.h"

#include "../common/reset.h"

#include "../common/fault_v6m.h"
