/* NUCLEO-L4R5ZI, STM32L4R5: Cortex-M4 with FPU at 120 MHz, 2 MB flash, 640 KB RAM: boot and clock. */
#include "../common/startup.h"

#include "../common/reset_fpu.h"

#include "../common/fault_v7m.h"

#include "../common/reg.h"

#define RCC 0x40021000u /* RM0432 2.2.2 */
#define PWR 0x40007000u
#define FLASH_ACR 0x40022000u

/* 120 MHz from the internal 4 MHz (MSI): VCO 4 * 60 = 240, divided by 2; all buses 120 MHz. */
void ge_clock_init(void) {
    REG(RCC + 0x58u) |= 1u << 28;                    /* APB1ENR1.PWREN, RM0432 6.4.18 */
    ge_set_bits(PWR + 0x00u, 3u << 9, 1u << 9);      /* CR1.VOS: range 1, RM0432 5.4.1 */
    ge_set_bits(PWR + 0x80u, 1u << 8, 0u);           /* CR5.R1MODE 0: boost, for over 80 MHz, 5.4.27 */
    (void)ge_wait_for(PWR + 0x14u, 1u << 10, 0u);    /* SR2.VOSF, RM0432 5.4.6 */
    ge_set_bits(FLASH_ACR, 0xFu, 5u);                /* 5 wait states at 120 MHz, RM0432 3.3.3 */
    REG(FLASH_ACR) |= 7u << 8;                       /* prefetch and caches, RM0432 3.7.1 */
    REG(RCC + 0x0Cu) = 1u | (60u << 8) | (1u << 24); /* PLLCFGR: MSI, M 1, N 60, R 2, on, RM0432 6.4.4 */
    REG(RCC + 0x00u) |= 1u << 24;                    /* CR.PLLON, RM0432 6.4.1 */
    if (!ge_wait_for(RCC, 1u << 25, 1u << 25)) {     /* PLLRDY */
        return;
    }
    ge_set_bits(RCC + 0x08u, 0xF0u, 8u << 4);    /* CFGR.HPRE: AHB / 2 while the clock changes, RM0432 5.1.8 */
    ge_set_bits(RCC + 0x08u, 3u, 3u);            /* CFGR.SW: PLL, RM0432 6.4.3 */
    (void)ge_wait_for(RCC + 0x08u, 0xCu, 0xCu);  /* SWS */
    for (volatile int32_t i = 0; i < 120; ++i) { /* at least 1 us at half speed */
    }
    ge_set_bits(RCC + 0x08u, 0xF0u, 0u);
}
