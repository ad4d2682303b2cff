/* The clock of the nRF51 and nRF52 series: the core runs from reset; the crystal makes baud rates exact. */
#include "reg.h"

#define CLOCK 0x40000000u /* nRF51 Series Reference Manual 3.0, chapter 12; nRF52840 product specification 1.7, 5.4 */

static inline void ge_start_crystal(void) {
    REG(CLOCK + 0x100u) = 0u; /* EVENTS_HFCLKSTARTED */
    REG(CLOCK + 0x000u) = 1u; /* TASKS_HFCLKSTART */
    (void)ge_wait_for(CLOCK + 0x100u, 1u, 1u);
}
