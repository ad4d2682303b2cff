/* NUCLEO-H743ZI2, STM32H743: Cortex-M7 with double FPU at 400 MHz, 2 MB flash, 1 MB RAM: UART. */
#include "../common/uart_stm32_tdr.h"

#define RCC 0x58024400u
#define GPIOD 0x58020C00u

/* Registers are named as in RM0433: RCC in its section 8.7, GPIO in chapter 11. */

/* USART3 on PD8 (TX) and PD9 (RX), which the ST-LINK passes on (UM2407, 6.9); alternate function 7 (data sheet). */
static void ge_uart_pins(void) {
    REG(RCC + 0xE0u) |= 1u << 3;                        /* RCC_AHB4ENR.GPIODEN */
    REG(RCC + 0xE8u) |= 1u << 18;                       /* RCC_APB1LENR.USART3EN */
    ge_set_bits(GPIOD + 0x00u, 0xFu << 16, 0xAu << 16); /* GPIOD_MODER: alternate */
    ge_set_bits(GPIOD + 0x24u, 0xFFu, 0x77u);           /* GPIOD_AFRH: AF7 */
}
