/* UART of the nRF51 series (nRF51 Series Reference Manual 3.0, chapter 29; pins: chapter 14). */
#include "board.h"
#include "ge_board.h"
#include "reg.h"
#include "uart_wait.h"

#ifndef GE_UART_TX_PIN /* those of the micro:bit */
#define GE_UART_TX_PIN 24u
#define GE_UART_RX_PIN 25u
#endif

#define GPIO_OUTSET 0x50000508u
#define GPIO_PIN_CNF(pin) (0x50000700u + 4u * (pin)) /* DIR 1: output; INPUT 0x2: not connected, as after reset */

#define UART_STARTRX (*(volatile uint32_t *)(GE_UART_BASE + 0x000u)) /* task, table 263 */
#define UART_STARTTX (*(volatile uint32_t *)(GE_UART_BASE + 0x008u)) /* task */
#define UART_RXDRDY (*(volatile uint32_t *)(GE_UART_BASE + 0x108u))  /* event: RXD holds a byte */
#define UART_TXDRDY (*(volatile uint32_t *)(GE_UART_BASE + 0x11Cu))  /* event: the byte has left TXD */
#define UART_ENABLE (*(volatile uint32_t *)(GE_UART_BASE + 0x500u))  /* 29.11: 4 enables */
#define UART_PSELTXD (*(volatile uint32_t *)(GE_UART_BASE + 0x50Cu)) /* pin of TXD */
#define UART_PSELRXD (*(volatile uint32_t *)(GE_UART_BASE + 0x514u)) /* pin of RXD */
#define UART_RXD (*(volatile uint32_t *)(GE_UART_BASE + 0x518u))     /* 29.5: a FIFO of 6 bytes */
#define UART_TXD (*(volatile uint32_t *)(GE_UART_BASE + 0x51Cu))
#define UART_BAUDRATE (*(volatile uint32_t *)(GE_UART_BASE + 0x524u)) /* 0x01D7E000: 115200 baud */

/* A line that is idle is high. */
void ge_uart_init(void) {
    REG(GPIO_OUTSET) = 1u << GE_UART_TX_PIN;
    REG(GPIO_PIN_CNF(GE_UART_TX_PIN)) = 1u;
    REG(GPIO_PIN_CNF(GE_UART_RX_PIN)) = 0u;
    UART_PSELTXD = GE_UART_TX_PIN;
    UART_PSELRXD = GE_UART_RX_PIN;
    UART_BAUDRATE = 0x01D7E000u;
    UART_ENABLE = 4u;
    UART_STARTTX = 1u;
    UART_STARTRX = 1u;
}

static int32_t ge_uart_has_room(void) {
    return UART_TXDRDY != 0u;
}

/* Waits after the byte: the first one finds no event. */
void ge_uart_put(uint8_t byte) {
    UART_TXDRDY = 0u;
    UART_TXD = byte;
    (void)ge_uart_wait();
}

/* The event first, then the byte: a byte that comes between the two sets the event again (29.5). */
int32_t ge_uart_get(void) {
    if (UART_RXDRDY == 0u) {
        return -1;
    }
    UART_RXDRDY = 0u;
    return (int32_t)(UART_RXD & 0xFFu);
}
