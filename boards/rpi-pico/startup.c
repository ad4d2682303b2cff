/* Raspberry Pi Pico, RP2040: Cortex-M0+ at 125 MHz, 2 MB flash, 264 KB RAM: boot and clock. */
#include "../common/startup.h"

#include "../common/reset.h"

#include "../common/fault_v6m.h"

#include "../common/reg.h"

#define RESETS 0x4000C000u  /* RP2040 data sheet 2.14 */
#define CLOCKS 0x40008000u  /* 2.15 */
#define XOSC 0x40024000u    /* 2.16 */
#define PLL_SYS 0x40028000u /* 2.18 */

static void release(uint32_t bits) {
    ge_set_bits(RESETS, bits, 0u);              /* RESET, 2.14.3 */
    (void)ge_wait_for(RESETS + 8u, bits, bits); /* RESET_DONE */
}

/* 125 MHz from the 12 MHz crystal: 12 * 125 = 1500, divided by 6 and 2; the peripherals' clock is the same. */
void ge_clock_init(void) {
    REG(XOSC + 0x0Cu) = 47u;                           /* STARTUP: 1 ms, 2.16.7 */
    REG(XOSC + 0x00u) = 0xFABAA0u;                     /* CTRL: enable, 1-15 MHz, 2.16.7 */
    if (!ge_wait_for(XOSC + 4u, 1u << 31, 1u << 31)) { /* STATUS.STABLE */
        return;
    }
    release((1u << 12) | (1u << 5) | (1u << 8));     /* PLL_SYS, IO_BANK0, PADS_BANK0 */
    REG(PLL_SYS + 0x00u) = 1u;                       /* CS: reference divider 1, 2.18.4 */
    REG(PLL_SYS + 0x08u) = 125u;                     /* FBDIV_INT */
    ge_set_bits(PLL_SYS + 0x04u, 0x21u, 0u);         /* PWR: PLL and VCO on */
    if (!ge_wait_for(PLL_SYS, 1u << 31, 1u << 31)) { /* CS.LOCK */
        return;
    }
    REG(PLL_SYS + 0x0Cu) = (6u << 16) | (2u << 12); /* PRIM: dividers 6 and 2 */
    ge_set_bits(PLL_SYS + 0x04u, 0x8u, 0u);         /* PWR: post dividers on */
    REG(CLOCKS + 0x30u) = 2u;                       /* CLK_REF_CTRL: crystal, 2.15.7 */
    (void)ge_wait_for(CLOCKS + 0x38u, 4u, 4u);      /* CLK_REF_SELECTED */
    REG(CLOCKS + 0x3Cu) = 1u;                       /* CLK_SYS_CTRL: the auxiliary source, which is PLL_SYS */
    (void)ge_wait_for(CLOCKS + 0x44u, 2u, 2u);      /* CLK_SYS_SELECTED */
    REG(CLOCKS + 0x48u) = 1u << 11;                 /* CLK_PERI_CTRL: on, from clk_sys */
    release(1u << 22);                              /* UART0, which comes out of reset only with its clock */
    REG(0x40014004u) = 2u;                          /* GPIO0_CTRL: UART0 TX, 2.19.6.1 */
    REG(0x4001400Cu) = 2u;                          /* GPIO1_CTRL: UART0 RX */
}
