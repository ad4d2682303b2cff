/* BBC micro:bit, nRF51822: Cortex-M0, 256 KB flash, 16 KB RAM (QEMU): boot. */
#include "../common/startup.h"

#include "../common/reset.h"

#include "../common/fault_v6m.h"

#include "../common/clock_nrf.h"

/* The core runs at 16 MHz from reset. */
void ge_clock_init(void) {
    ge_start_crystal();
}
