/* USART of the STM32F1, F2 and F4: one data register (RM0090 30.6, RM0041 23.6). The board has switched on its clock
 * and its pins. */
#include "board.h"
#include "ge_board.h"
#include "reg.h"
#include "uart_wait.h"

#define USART_SR (GE_UART_BASE + 0x00u)  /* RM0090 30.6.1: RXNE 0x20, TXE 0x80 */
#define USART_DR (GE_UART_BASE + 0x04u)  /* 30.6.2 */
#define USART_BRR (GE_UART_BASE + 0x08u) /* 30.6.3: clock / baud, oversampling by 16 */
#define USART_CR1 (GE_UART_BASE + 0x0Cu) /* 30.6.4: RE 0x4, TE 0x8, UE 0x2000 */

static void ge_uart_pins(void);

void ge_uart_init(void) {
    ge_uart_pins();
    REG(USART_BRR) = (GE_UART_CLOCK_HZ + GE_UART_BAUD / 2u) / GE_UART_BAUD;
    REG(USART_CR1) = 0x200Cu;
}

static int32_t ge_uart_has_room(void) {
    return (REG(USART_SR) & 0x80u) != 0u;
}

void ge_uart_put(uint8_t byte) {
    if (ge_uart_wait()) {
        REG(USART_DR) = byte;
    }
}

int32_t ge_uart_get(void) {
    return ((REG(USART_SR) & 0x20u) != 0u) ? (int32_t)(REG(USART_DR) & 0xFFu) : -1;
}
