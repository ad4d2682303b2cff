/* Waiting for a transmitter. One that never drains (a line that is held, a clock that is off) costs its time once, not
 * for every byte: after that bytes are dropped until there is room again, and the host asks again. */
#ifndef GE_UART_WAIT_H
#define GE_UART_WAIT_H

#include "ge_board.h"

/* Of the driver: 1 where the transmitter takes a byte. */
static int32_t ge_uart_has_room(void);

#define GE_UART_TRIES (GE_CLOCK_HZ / 8u) /* each some 8 cycles: a second; a byte takes 90 us at 115200 baud */

/* Returns 1 where there is room, 0 where the byte must be dropped. */
static int32_t ge_uart_wait(void) {
    static int32_t stuck;
    const uint32_t tries = stuck ? 1u : GE_UART_TRIES;
    for (uint32_t i = 0; i < tries; ++i) {
        if (ge_uart_has_room()) {
            stuck = 0;
            return 1;
        }
    }
    stuck = 1;
    return 0;
}

#endif
