/* Ticks by the cycle counter of a RISC-V core (Privileged Architecture 3.1.10): 64 bits, no interrupts. Under QEMU with
 * -icount it counts nanoseconds of the guest, so the board's clock is 1 GHz there. */
#include "board.h"

static uint64_t began;

/* The high word is read twice: where it has changed, the low word has overflowed between the reads. */
static uint64_t cycles(void) {
    uint32_t high = 0;
    uint32_t low = 0;
    uint32_t again = 0;
    do {
        __asm__ volatile("csrr %0, mcycleh\n"
                         "csrr %1, mcycle\n"
                         "csrr %2, mcycleh\n"
                         : "=&r"(high), "=&r"(low), "=&r"(again));
    } while (high != again);
    return ((uint64_t)high << 32) | low;
}

void ge_ticks_start(uint32_t period) {
    (void)period;
    began = cycles();
}

void ge_ticks_stop(void) {}

ge_ticks ge_ticks_read(void) {
    const ge_ticks now = {cycles() - began, 0};
    return now;
}
