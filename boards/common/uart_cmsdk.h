/* UART of the Cortex-M System Design Kit (Arm DDI 0479, section 4.3). */
#include "board.h"
#include "ge_board.h"
#include "uart_wait.h"

#define UART_DATA (*(volatile uint32_t *)(GE_UART_BASE + 0x00u)) /* DATA, table 4-6 */
#define UART_STATE                                                                                                     \
    (*(volatile uint32_t *)(GE_UART_BASE + 0x04u)) /* STATE: 1 transmit buffer full, 2 receive buffer full */
#define UART_CTRL (*(volatile uint32_t *)(GE_UART_BASE + 0x08u))    /* CTRL: 1 transmit, 2 receive enable */
#define UART_BAUDDIV (*(volatile uint32_t *)(GE_UART_BASE + 0x10u)) /* BAUDDIV: clock / baud, at least 16 */

/* The read after CTRL makes QEMU look for bytes that were sent before receiving was enabled. */
void ge_uart_init(void) {
    UART_BAUDDIV = GE_UART_CLOCK_HZ / GE_UART_BAUD;
    UART_CTRL = 3u;
    (void)UART_DATA;
}

static int32_t ge_uart_has_room(void) {
    return (UART_STATE & 1u) == 0u;
}

void ge_uart_put(uint8_t byte) {
    if (ge_uart_wait()) {
        UART_DATA = byte;
    }
}

int32_t ge_uart_get(void) {
    return ((UART_STATE & 2u) != 0u) ? (int32_t)(UART_DATA & 0xFFu) : -1;
}
