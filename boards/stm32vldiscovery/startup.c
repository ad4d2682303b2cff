/* STM32VLDISCOVERY, STM32F100RB: Cortex-M3, 128 KB flash, 8 KB RAM (QEMU): boot and clock. */
#include "../common/startup.h"

#include "../common/reset.h"

#include "../common/fault_v7m.h"

#include "../common/reg.h"

#define RCC 0x40021000u /* RM0041 2.3 */

/* 24 MHz: the internal 8 MHz halved, times 6 (RM0041 6.2.3). No wait states at 24 MHz (RM0041 2.3.3). */
void ge_clock_init(void) {
    ge_set_bits(RCC + 0x04u, 0x3F0000u, 4u << 18); /* CFGR: PLLMUL 6, source HSI / 2, RM0041 6.3.2 */
    REG(RCC + 0x00u) |= 1u << 24;                  /* CR.PLLON, RM0041 6.3.1 */
    if (!ge_wait_for(RCC, 1u << 25, 1u << 25)) {   /* PLLRDY */
        return;
    }
    ge_set_bits(RCC + 0x04u, 3u, 2u);           /* CFGR.SW: PLL */
    (void)ge_wait_for(RCC + 0x04u, 0xCu, 0x8u); /* SWS */
}
