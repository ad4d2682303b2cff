/* NUCLEO-U575ZI-Q, STM32U575: Cortex-M33 with FPU at 160 MHz, 2 MB flash, 784 KB RAM: UART. */
#include "../common/uart_stm32_tdr.h"

#define RCC 0x46020C00u
#define GPIOA 0x42020000u

/* USART1 on PA9 (TX) and PA10 (RX), which the ST-LINK passes on (UM2861, 7.9); alternate function 7 (data sheet). */
static void ge_uart_pins(void) {
    REG(RCC + 0x8Cu) |= 1u;                             /* AHB2ENR1.GPIOAEN, RM0456 11.8.28 */
    REG(RCC + 0xA4u) |= 1u << 14;                       /* APB2ENR.USART1EN, RM0456 11.8.34 */
    ge_set_bits(GPIOA + 0x00u, 0xFu << 18, 0xAu << 18); /* MODER: alternate, RM0456 13.4.1 */
    ge_set_bits(GPIOA + 0x24u, 0xFF0u, 0x770u);         /* AFRH: AF7, RM0456 13.4.10 */
}
