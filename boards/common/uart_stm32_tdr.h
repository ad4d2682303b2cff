/* USART of the STM32L4+, H7 and U5: separate data registers (RM0432 50.8, RM0433 48.7, RM0456 66.8). An LPUART has the
 * same registers, with another divider: define GE_UART_IS_LPUART before. The board has switched on clock and pins. */
#include "board.h"
#include "ge_board.h"
#include "reg.h"
#include "uart_wait.h"

#define USART_CR1 (GE_UART_BASE + 0x00u) /* RM0432 50.8.1: UE 0x1, RE 0x4, TE 0x8, FIFOEN 0x20000000 */
#define USART_BRR (GE_UART_BASE + 0x0Cu) /* RM0432 50.8.5; of an LPUART 51.7.5: 256 * clock / baud */
#define USART_ISR (GE_UART_BASE + 0x1Cu) /* RM0432 50.8.10: ORE 0x8, RXFNE 0x20, TXFNF 0x80 */
#define USART_ICR (GE_UART_BASE + 0x20u) /* RM0432 50.8.11: ORECF 0x8 */
#define USART_RDR (GE_UART_BASE + 0x24u) /* RM0432 50.8.12 */
#define USART_TDR (GE_UART_BASE + 0x28u) /* RM0432 50.8.13 */

#ifdef GE_UART_IS_LPUART
#define USART_DIVIDER ((uint32_t)((256ull * GE_UART_CLOCK_HZ + GE_UART_BAUD / 2u) / GE_UART_BAUD))
#else
#define USART_DIVIDER ((GE_UART_CLOCK_HZ + GE_UART_BAUD / 2u) / GE_UART_BAUD)
#endif

static void ge_uart_pins(void);

void ge_uart_init(void) {
    ge_uart_pins();
    REG(USART_CR1) = 0;
    REG(USART_BRR) = USART_DIVIDER;
    REG(USART_CR1) = 0x2000000Du;
}

static int32_t ge_uart_has_room(void) {
    return (REG(USART_ISR) & 0x80u) != 0u;
}

void ge_uart_put(uint8_t byte) {
    if (ge_uart_wait()) {
        REG(USART_TDR) = byte;
    }
}

/* An overrun stops reception until it is cleared. */
int32_t ge_uart_get(void) {
    const uint32_t state = REG(USART_ISR);
    if ((state & 0x8u) != 0u) {
        REG(USART_ICR) = 0x8u;
    }
    return ((state & 0x20u) != 0u) ? (int32_t)(REG(USART_RDR) & 0xFFu) : -1;
}
