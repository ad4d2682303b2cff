/* Ticks by SysTick: 24 bits down (ARMv6-M ARM B3.3, ARMv7-M ARM B3.3), extended by its interrupt. */
#include "board.h"

#define SYST_CSR (*(volatile uint32_t *)0xE000E010u) /* B3.3.3: ENABLE 1, TICKINT 2, CLKSOURCE 4 (core clock) */
#define SYST_RVR (*(volatile uint32_t *)0xE000E014u) /* B3.3.4: the value after zero: period - 1 */
#define SYST_CVR (*(volatile uint32_t *)0xE000E018u) /* B3.3.5: a write clears it */
#define ICSR (*(volatile uint32_t *)0xE000ED04u)     /* B3.2.4 */
#define ICSR_PENDSTCLR (1u << 25)
#define ENABLE_WITH_INTERRUPT 7u

void ge_tick_handler(void);
volatile uint32_t ge_tick_interrupts;
static uint32_t tick_period;

/* Always the same instructions, so that what it adds to a measurement can be subtracted. */
__attribute__((naked)) void ge_tick_handler(void) {
    __asm__ volatile(".syntax unified\n"
                     "    ldr  r0, =ge_tick_interrupts\n"
                     "    ldr  r1, [r0]\n"
                     "    adds r1, r1, #1\n"
                     "    str  r1, [r0]\n"
                     "    bx   lr\n");
}

void ge_ticks_start(uint32_t period) {
    ge_ticks_stop();
    tick_period = period;
    ge_tick_interrupts = 0;
    SYST_RVR = period - 1u;
    SYST_CVR = 0;
    SYST_CSR = ENABLE_WITH_INTERRUPT;
}

void ge_ticks_stop(void) {
    SYST_CSR = 0;
    ICSR = ICSR_PENDSTCLR;
}

/* An interrupt between the reads shows as a changed count: read again. Zero is counted as the period's start. */
ge_ticks ge_ticks_read(void) {
    uint32_t interrupts;
    uint32_t value;
    do {
        interrupts = ge_tick_interrupts;
        value = SYST_CVR;
    } while (interrupts != ge_tick_interrupts);
    const uint32_t passed = (value == 0u) ? 0u : tick_period - value;
    const ge_ticks now = {(uint64_t)interrupts * tick_period + passed, interrupts};
    return now;
}
