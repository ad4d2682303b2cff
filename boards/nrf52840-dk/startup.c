/* nRF52840-DK: Cortex-M4 with FPU at 64 MHz, 1 MB flash, 256 KB RAM: boot and clock. */
#include "../common/startup.h"

#include "../common/reset_fpu.h"

#include "../common/fault_v7m.h"

#include "../common/clock_nrf.h"

#define NVMC_ICACHECNF 0x4001E540u

/* The core runs at 64 MHz from reset. */
void ge_clock_init(void) {
    ge_start_crystal();
    REG(NVMC_ICACHECNF) = 1u; /* NVMC.ICACHECNF.CACHEEN: instruction cache on, 4.3 */
}
