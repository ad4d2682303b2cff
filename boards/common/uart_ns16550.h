/* UART 16550 (National Semiconductor PC16550D, section 8). */
#include "board.h"
#include "ge_board.h"
#include "uart_wait.h"

#define UART(number) (*(volatile uint8_t *)(GE_UART_BASE + (number)))
#define UART_DATA UART(0u)    /* 8.0: receiver buffer, transmitter holding; with DLAB the divisor's low byte */
#define UART_ENABLE UART(1u)  /* interrupts; with DLAB the divisor's high byte */
#define UART_FIFO UART(2u)    /* 8.5: 1 enables, 6 clears both */
#define UART_CONTROL UART(3u) /* 8.2: 3 eight bits, 0x80 DLAB */
#define UART_STATUS UART(5u)  /* 8.4: 1 data ready, 0x20 transmitter holding register empty */

void ge_uart_init(void) {
    const uint32_t divisor = GE_UART_CLOCK_HZ / (16u * GE_UART_BAUD);
    UART_CONTROL = 0x80u;
    UART_DATA = (uint8_t)divisor;
    UART_ENABLE = (uint8_t)(divisor >> 8);
    UART_CONTROL = 3u;
    UART_FIFO = 7u;
    UART_ENABLE = 0u;
}

static int32_t ge_uart_has_room(void) {
    return (UART_STATUS & 0x20u) != 0u;
}

void ge_uart_put(uint8_t byte) {
    if (ge_uart_wait()) {
        UART_DATA = byte;
    }
}

int32_t ge_uart_get(void) {
    return ((UART_STATUS & 1u) != 0u) ? (int32_t)UART_DATA : -1;
}
