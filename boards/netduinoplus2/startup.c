/* Netduino Plus 2, STM32F405: Cortex-M4 with FPU, 1 MB flash, 128 KB RAM (QEMU): boot and clock. */
#include "../common/startup.h"

#include "../common/reset_fpu.h"

#include "../common/fault_v7m.h"

#include "../common/reg.h"

#define RCC 0x40023800u /* RM0090 2.3 */
#define PWR_CR 0x40007000u
#define FLASH_ACR 0x40023C00u

/* 168 MHz from the internal 16 MHz: VCO 16/16 * 336, divided by 2; APB1 42 MHz, APB2 84 MHz. */
void ge_clock_init(void) {
    REG(RCC + 0x40u) |= 1u << 28;                      /* APB1ENR.PWREN, RM0090 7.3.13 */
    REG(PWR_CR) |= 1u << 14;                           /* VOS: scale 1, RM0090 5.4.1 */
    REG(RCC + 0x04u) = 16u | (336u << 6) | (7u << 24); /* PLLCFGR: M 16, N 336, P 2, Q 7, from HSI, RM0090 7.3.2 */
    REG(RCC + 0x00u) |= 1u << 24;                      /* CR.PLLON, RM0090 7.3.1 */
    if (!ge_wait_for(RCC, 1u << 25, 1u << 25)) {       /* PLLRDY */
        return;
    }
    REG(FLASH_ACR) = 0x705u; /* 5 wait states, caches and prefetch, RM0090 3.9.1 */
    ge_set_bits(RCC + 0x08u, 0xFCF3u, (5u << 10) | (4u << 13) | 2u); /* CFGR: APB1 / 4, APB2 / 2, SW PLL, 7.3.3 */
    (void)ge_wait_for(RCC + 0x08u, 0xCu, 0x8u);                      /* SWS */
}
