/* NUCLEO-U575ZI-Q, STM32U575: Cortex-M33 with FPU at 160 MHz, 2 MB flash, 784 KB RAM: boot and clock. */
#include "../common/startup.h"

#include "../common/reset_fpu.h"

#include "../common/fault_v7m.h"

#include "../common/reg.h"

/* Registers are named as in RM0456: RCC in its section 11.8, PWR in 10.10, FLASH in 7.9, ICACHE in chapter 8. */
#define RCC 0x46020C00u /* RM0456 2.3.2 */
#define PWR 0x46020800u
#define FLASH_ACR 0x40022000u
#define ICACHE_CR 0x40030400u

/* 160 MHz from the internal 4 MHz (MSIS): 4 * 80 = 320, divided by 2; all buses 160 MHz. */
void ge_clock_init(void) {
    REG(RCC + 0x94u) |= 1u << 2;                         /* RCC_AHB3ENR.PWREN */
    REG(RCC + 0x28u) = 1u | (1u << 18);                  /* RCC_PLL1CFGR: MSIS, M 1, 4-8 MHz, R on, booster / 1 */
    REG(PWR + 0x0Cu) |= 3u << 16;                        /* PWR_VOSR.VOS: range 1 */
    if (!ge_wait_for(PWR + 0x0Cu, 1u << 15, 1u << 15)) { /* PWR_VOSR.VOSRDY */
        return;
    }
    REG(PWR + 0x0Cu) |= 1u << 18;                        /* PWR_VOSR.BOOSTEN: needed above 55 MHz */
    if (!ge_wait_for(PWR + 0x0Cu, 1u << 14, 1u << 14)) { /* PWR_VOSR.BOOSTRDY */
        return;
    }
    ge_set_bits(FLASH_ACR, 0xFu, 4u); /* FLASH_ACR.LATENCY: 4 wait states at 160 MHz, 7.3.3 */
    REG(FLASH_ACR) |= 1u << 8;        /* FLASH_ACR.PRFTEN */
    REG(RCC + 0x34u) = 79u | (1u << 9) | (1u << 16) | (1u << 24); /* RCC_PLL1DIVR: N 80, R 2 */
    REG(RCC + 0x00u) |= 1u << 24;                                 /* RCC_CR.PLL1ON */
    if (!ge_wait_for(RCC, 1u << 25, 1u << 25)) {                  /* RCC_CR.PLL1RDY */
        return;
    }
    ge_set_bits(RCC + 0x20u, 0xFu, 8u); /* RCC_CFGR2.HPRE: AHB / 2 while the clock changes to over 80 MHz */
    ge_set_bits(RCC + 0x1Cu, 3u, 3u);   /* RCC_CFGR1.SW: PLL1 */
    (void)ge_wait_for(RCC + 0x1Cu, 0xCu, 0xCu);
    for (volatile int32_t i = 0; i < 160; ++i) { /* at least 1 us at half speed */
    }
    ge_set_bits(RCC + 0x20u, 0xFu, 0u);
    REG(ICACHE_CR) |= 1u; /* ICACHE_CR.EN */
}
