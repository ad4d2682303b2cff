/* nRF52840-DK: Cortex-M4 with FPU at 64 MHz, 1 MB flash, 256 KB RAM: boot and clock. */
#include "../common/startup.h"

#include "../common/reset_fpu.h"

#include "../common/fault_v7m.h"

#include "../common/reg.h"

#define CLOCK 0x40000000u /* nRF52840 product specification 1.7, 5.4 */
#define NVMC_ICACHECNF 0x4001E540u

/* The core runs at 64 MHz from reset; the crystal makes the baud rate exact (5.4.1). */
void ge_clock_init(void) {
    REG(CLOCK + 0x100u) = 0u; /* EVENTS_HFCLKSTARTED, 5.4.3 */
    REG(CLOCK + 0x000u) = 1u; /* TASKS_HFCLKSTART */
    (void)ge_wait_for(CLOCK + 0x100u, 1u, 1u);
    REG(NVMC_ICACHECNF) = 1u; /* instruction cache on, 4.3.8 */
}
