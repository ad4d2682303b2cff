/* NUCLEO-H743ZI2, STM32H743: Cortex-M7 with double FPU at 400 MHz, 2 MB flash, 1 MB RAM: boot and clock. */
#include "../common/startup.h"

#include "../common/reset_fpu.h"

#include "../common/fault_v7m.h"

#include "../common/reg.h"

/* Registers are named as in RM0433: RCC in its section 8.7, PWR in 6.8, FLASH in 4.9. */
#define RCC 0x58024400u /* RM0433 2.3.2 */
#define PWR 0x58024800u
#define FLASH_ACR 0x52002000u
#define SCB_CCR 0xE000ED14u     /* ARMv7-M ARM B3.2.8: IC is bit 17 */
#define SCB_ICIALLU 0xE000EF50u /* ARMv7-M ARM B3.2.24 */

/* 400 MHz from the internal 64 MHz: 64 / 4 * 50 = 800, divided by 2; AXI 200 MHz, APB 100 MHz. */
void ge_clock_init(void) {
    ge_set_bits(PWR + 0x0Cu, 7u, 2u);                             /* PWR_CR3: LDO supply, once */
    (void)ge_wait_for(PWR + 0x04u, 1u << 13, 1u << 13);           /* PWR_CSR1.ACTVOSRDY */
    ge_set_bits(PWR + 0x18u, 3u << 14, 3u << 14);                 /* PWR_D3CR.VOS: scale 1 */
    (void)ge_wait_for(PWR + 0x18u, 1u << 13, 1u << 13);           /* PWR_D3CR.VOSRDY */
    REG(FLASH_ACR) = 0x22u;                                       /* FLASH_ACR: 2 wait states, 200 MHz AXI */
    ge_set_bits(RCC + 0x28u, 0x3F3u, 4u << 4);                    /* RCC_PLLCKSELR: HSI, DIVM1 4 */
    ge_set_bits(RCC + 0x2Cu, 0x1000Fu, (3u << 2) | (1u << 16));   /* RCC_PLLCFGR: 8-16 MHz in, wide VCO, P on */
    REG(RCC + 0x30u) = 49u | (1u << 9) | (1u << 16) | (1u << 24); /* RCC_PLL1DIVR: N 50, P 2 */
    REG(RCC + 0x00u) |= 1u << 24;                                 /* RCC_CR.PLL1ON */
    if (!ge_wait_for(RCC, 1u << 25, 1u << 25)) {                  /* RCC_CR.PLL1RDY */
        return;
    }
    REG(RCC + 0x18u) = 8u | (4u << 4);        /* RCC_D1CFGR: core / 1, AHB / 2, APB3 / 2 */
    REG(RCC + 0x1Cu) = (4u << 4) | (4u << 8); /* RCC_D2CFGR: APB1, APB2 / 2 */
    REG(RCC + 0x20u) = 4u << 4;               /* RCC_D3CFGR: APB4 / 2 */
    ge_set_bits(RCC + 0x10u, 7u, 3u);         /* RCC_CFGR.SW: PLL1 */
    (void)ge_wait_for(RCC + 0x10u, 7u << 3, 3u << 3);
    REG(SCB_ICIALLU) = 0;
    REG(SCB_CCR) |= 1u << 17;
    __asm__ volatile("dsb\n isb");
}
