/* PrimeCell UART PL011 (Arm DDI 0183, chapter 3). */
#include "board.h"
#include "ge_board.h"
#include "uart_wait.h"

#define UART_DR (*(volatile uint32_t *)(GE_UART_BASE + 0x00u)) /* 3.3.1 */
#define UART_FR (*(volatile uint32_t *)(GE_UART_BASE + 0x18u)) /* 3.3.3: 0x10 receive FIFO empty, 0x20 transmit full */
#define UART_IBRD (*(volatile uint32_t *)(GE_UART_BASE + 0x24u))  /* 3.3.5: clock / (16 baud), whole part */
#define UART_FBRD (*(volatile uint32_t *)(GE_UART_BASE + 0x28u))  /* 3.3.6: its fraction in 1/64 */
#define UART_LCR_H (*(volatile uint32_t *)(GE_UART_BASE + 0x2Cu)) /* 3.3.7: 0x60 8 bits, 0x10 FIFO */
#define UART_CR (*(volatile uint32_t *)(GE_UART_BASE + 0x30u))    /* 3.3.8: 1 UART, 0x100 transmit, 0x200 receive */

/* Divider in 1/64: clock * 64 / (16 * baud) = clock * 4 / baud. */
void ge_uart_init(void) {
    const uint32_t divider = GE_UART_CLOCK_HZ * 4u / GE_UART_BAUD;
    UART_CR = 0;
    UART_IBRD = divider / 64u;
    UART_FBRD = divider % 64u;
    UART_LCR_H = 0x70u;
    UART_CR = 0x301u;
}

static int32_t ge_uart_has_room(void) {
    return (UART_FR & 0x20u) == 0u;
}

void ge_uart_put(uint8_t byte) {
    if (ge_uart_wait()) {
        UART_DR = byte;
    }
}

int32_t ge_uart_get(void) {
    return ((UART_FR & 0x10u) == 0u) ? (int32_t)(UART_DR & 0xFFu) : -1;
}
