/* NUCLEO-U575ZI-Q, STM32U575: Cortex-M33 with FPU at 160 MHz, 2 MB flash, 784 KB RAM: UART. */
#include "../common/uart_stm32_tdr.h"

#define RCC 0x46020C00u
#define GPIOA 0x42020000u

/* Registers are named as in RM0456: RCC in its section 11.8, GPIO in chapter 13. */

/* USART1 on PA9 (TX) and PA10 (RX), which the ST-LINK passes on (UM2861, 7.9); alternate function 7 (data sheet). */
static void ge_uart_pins(void) {
    REG(RCC + 0x8Cu) |= 1u;                             /* RCC_AHB2ENR1.GPIOAEN */
    REG(RCC + 0xA4u) |= 1u << 14;                       /* RCC_APB2ENR.USART1EN */
    ge_set_bits(GPIOA + 0x00u, 0xFu << 18, 0xAu << 18); /* GPIOA_MODER: alternate */
    ge_set_bits(GPIOA + 0x24u, 0xFF0u, 0x770u);         /* GPIOA_AFRH: AF7 */
}
