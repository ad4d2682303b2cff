/* STM32VLDISCOVERY, STM32F100RB: Cortex-M3, 128 KB flash, 8 KB RAM (QEMU): UART. */
#include "../common/uart_stm32_dr.h"

#define RCC 0x40021000u
#define GPIOA 0x40010800u

/* USART1 on PA9 (TX) and PA10 (RX) (STM32F100 data sheet, table 4). */
static void ge_uart_pins(void) {
    REG(RCC + 0x18u) |= (1u << 2) | (1u << 14); /* APB2ENR: GPIOA, USART1, RM0041 6.3.7 */
    ge_set_bits(GPIOA + 0x04u, 0xFF0u, 0x4B0u); /* CRH: PA9 alternate push-pull, PA10 input, RM0041 7.2.2 */
}
