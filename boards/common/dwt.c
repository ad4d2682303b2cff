/* Ticks by the cycle counter of the DWT (ARMv7-M ARM C1.8.7, C1.8.8): 32 bits, no interrupts; a measurement that takes
 * 2^32 cycles or more is wrong. QEMU does not have it. */
#include "board.h"
#include "reg.h"

#define DEMCR 0xE000EDFCu      /* C1.6.5: TRCENA is bit 24 */
#define DWT_CTRL 0xE0001000u   /* C1.8.7: CYCCNTENA is bit 0 */
#define DWT_CYCCNT 0xE0001004u /* C1.8.8 */
#define DWT_LAR 0xE0001FB0u    /* the lock of the Cortex-M7 (DDI 0489, 8.3): unlocked by this key, elsewhere ignored */
#define DWT_KEY 0xC5ACCE55u

void ge_tick_handler(void);

/* The vector of SysTick, which is never started. */
void ge_tick_handler(void) {}

void ge_ticks_start(uint32_t period) {
    (void)period;
    REG(DEMCR) |= 1u << 24;
    REG(DWT_LAR) = DWT_KEY;
    REG(DWT_CYCCNT) = 0;
    REG(DWT_CTRL) |= 1u;
}

void ge_ticks_stop(void) {
    REG(DWT_CTRL) &= ~1u;
}

ge_ticks ge_ticks_read(void) {
    const ge_ticks now = {REG(DWT_CYCCNT), 0};
    return now;
}
