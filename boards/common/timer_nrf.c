/* Ticks by TIMER0 of the nRF51 (nRF51 Series Reference Manual 3.0, chapter 19), whose core has no SysTick: 32 bits up at
 * 16 MHz, no interrupts; a measurement that takes 2^32 ticks (268 s) or more is wrong. The timer runs from the same clock
 * as the core, so that a tick is a cycle. */
#include "board.h"
#include "reg.h"

#define TIMER0 0x40008000u
#define TASKS_START (TIMER0 + 0x000u)
#define TASKS_STOP (TIMER0 + 0x004u)
#define TASKS_CLEAR (TIMER0 + 0x00Cu)
#define TASKS_CAPTURE0 (TIMER0 + 0x040u) /* copies the counter into CC[0] */
#define MODE (TIMER0 + 0x504u)           /* 0: timer */
#define BITMODE (TIMER0 + 0x508u)        /* 3: 32 bits, which only TIMER0 has */
#define PRESCALER (TIMER0 + 0x510u)      /* 0: 16 MHz */
#define CC0 (TIMER0 + 0x540u)

void ge_tick_handler(void);

/* The vector of SysTick, which is not there. */
void ge_tick_handler(void) {}

void ge_ticks_start(uint32_t period) {
    (void)period;
    REG(TASKS_STOP) = 1;
    REG(MODE) = 0;
    REG(BITMODE) = 3;
    REG(PRESCALER) = 0;
    REG(TASKS_CLEAR) = 1;
    REG(TASKS_START) = 1;
}

void ge_ticks_stop(void) {
    REG(TASKS_STOP) = 1;
}

ge_ticks ge_ticks_read(void) {
    REG(TASKS_CAPTURE0) = 1;
    const ge_ticks now = {REG(CC0), 0};
    return now;
}
