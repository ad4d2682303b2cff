/* NUCLEO-U575ZI-Q, STM32U575: Cortex-M33 with FPU at 160 MHz, 2 MB flash, 784 KB RAM: boot and clock. */
#include "../common/startup.h"

#include "../common/reset_fpu.h"

#include "../common/fault_v7m.h"

#include "../common/reg.h"

#define RCC 0x46020C00u /* RM0456 2.3.2 */
#define PWR 0x46020800u
#define FLASH_ACR 0x40022000u
#define ICACHE_CR 0x40030400u

/* 160 MHz from the internal 4 MHz (MSIS): 4 * 80 = 320, divided by 2; all buses 160 MHz. */
void ge_clock_init(void) {
    REG(RCC + 0x94u) |= 1u << 2;                         /* AHB3ENR.PWREN, RM0456 11.8.30 */
    REG(RCC + 0x28u) = 1u | (1u << 18);                  /* PLL1CFGR: MSIS, M 1, 4-8 MHz, R on, booster / 1, 11.8.10 */
    REG(PWR + 0x0Cu) |= (3u << 16) | (1u << 18);         /* VOSR: range 1 and booster, RM0456 10.10.4 */
    if (!ge_wait_for(PWR + 0x0Cu, 3u << 14, 3u << 14)) { /* VOSRDY, BOOSTRDY */
        return;
    }
    ge_set_bits(FLASH_ACR, 0xFu, 4u);                             /* 4 wait states at 160 MHz, RM0456 7.3.3 */
    REG(FLASH_ACR) |= 1u << 8;                                    /* prefetch, RM0456 7.9.1 */
    REG(RCC + 0x34u) = 79u | (1u << 9) | (1u << 16) | (1u << 24); /* PLL1DIVR: N 80, R 2, RM0456 11.8.13 */
    REG(RCC + 0x00u) |= 1u << 24;                                 /* CR.PLL1ON, RM0456 11.8.1 */
    if (!ge_wait_for(RCC, 1u << 25, 1u << 25)) {                  /* PLL1RDY */
        return;
    }
    ge_set_bits(RCC + 0x1Cu, 3u, 3u); /* CFGR1.SW: PLL1, RM0456 11.8.7 */
    (void)ge_wait_for(RCC + 0x1Cu, 0xCu, 0xCu);
    REG(ICACHE_CR) |= 1u; /* instruction cache on, RM0456 8.7.1 */
}
