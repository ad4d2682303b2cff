/* Netduino Plus 2, STM32F405: Cortex-M4 with FPU, 1 MB flash, 128 KB RAM (QEMU): UART. */
#include "../common/uart_stm32_dr.h"

#define RCC 0x40023800u
#define GPIOA 0x40020000u

/* USART1 on PA9 (TX) and PA10 (RX), alternate function 7 (STM32F405 data sheet, table 9). */
static void ge_uart_pins(void) {
    REG(RCC + 0x30u) |= 1u;                             /* AHB1ENR.GPIOAEN, RM0090 7.3.10 */
    REG(RCC + 0x44u) |= 1u << 4;                        /* APB2ENR.USART1EN, RM0090 7.3.14 */
    ge_set_bits(GPIOA + 0x00u, 0xFu << 18, 0xAu << 18); /* MODER: alternate, RM0090 8.4.1 */
    ge_set_bits(GPIOA + 0x24u, 0xFF0u, 0x770u);         /* AFRH: AF7 for pins 9 and 10, RM0090 8.4.10 */
}
