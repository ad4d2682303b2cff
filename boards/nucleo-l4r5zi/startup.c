/* NUCLEO-L4R5ZI, STM32L4R5: Cortex-M4 with FPU at 120 MHz, 2 MB flash, 640 KB RAM: boot and clock. */
#include "../common/startup.h"

#include "../common/reset_fpu.h"

#include "../common/fault_v7m.h"

#include "../common/reg.h"

/* Registers are named as in RM0432: RCC in its section 6.4, PWR in 5.4, FLASH in 3.7. */
#define RCC 0x40021000u /* RM0432 2.2 */
#define PWR 0x40007000u
#define FLASH_ACR 0x40022000u

/* 120 MHz from the internal 4 MHz (MSI): VCO 4 * 60 = 240, divided by 2; all buses 120 MHz. */
void ge_clock_init(void) {
    REG(RCC + 0x58u) |= 1u << 28;                    /* RCC_APB1ENR1.PWREN */
    ge_set_bits(PWR + 0x00u, 3u << 9, 1u << 9);      /* PWR_CR1.VOS: range 1 */
    ge_set_bits(PWR + 0x80u, 1u << 8, 0u);           /* PWR_CR5.R1MODE 0: boost, for over 80 MHz */
    (void)ge_wait_for(PWR + 0x14u, 1u << 10, 0u);    /* PWR_SR2.VOSF */
    ge_set_bits(FLASH_ACR, 0xFu, 5u);                /* FLASH_ACR.LATENCY: 5 wait states at 120 MHz, 3.3.3 */
    REG(FLASH_ACR) |= 7u << 8;                       /* FLASH_ACR: PRFTEN, ICEN, DCEN */
    REG(RCC + 0x0Cu) = 1u | (60u << 8) | (1u << 24); /* RCC_PLLCFGR: MSI, M 1, N 60, R 2, on */
    REG(RCC + 0x00u) |= 1u << 24;                    /* RCC_CR.PLLON */
    if (!ge_wait_for(RCC, 1u << 25, 1u << 25)) {     /* RCC_CR.PLLRDY */
        return;
    }
    ge_set_bits(RCC + 0x08u, 0xF0u, 8u << 4);    /* RCC_CFGR.HPRE: AHB / 2 while the clock changes, 5.1.8 */
    ge_set_bits(RCC + 0x08u, 3u, 3u);            /* RCC_CFGR.SW: PLL */
    (void)ge_wait_for(RCC + 0x08u, 0xCu, 0xCu);  /* RCC_CFGR.SWS */
    for (volatile int32_t i = 0; i < 120; ++i) { /* at least 1 us at half speed */
    }
    ge_set_bits(RCC + 0x08u, 0xF0u, 0u);
}
