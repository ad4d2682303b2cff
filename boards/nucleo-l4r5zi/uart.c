/* NUCLEO-L4R5ZI, STM32L4R5: Cortex-M4 with FPU at 120 MHz, 2 MB flash, 640 KB RAM: UART. */
#define GE_UART_IS_LPUART
#include "../common/uart_stm32_tdr.h"

#define RCC 0x40021000u
#define PWR_CR2 0x40007004u
#define GPIOG 0x48001800u

/* Registers are named as in RM0432: RCC in its section 6.4, PWR in 5.4, GPIO in chapter 8. */

/* LPUART1 on PG7 (TX) and PG8 (RX), which the ST-LINK passes on (UM2179, 6.10); alternate function 8 (data sheet, AF8). */
static void ge_uart_pins(void) {
    REG(RCC + 0x58u) |= 1u << 28;                         /* RCC_APB1ENR1.PWREN */
    REG(PWR_CR2) |= 1u << 9;                              /* PWR_CR2.IOSV: port G has its own supply */
    REG(RCC + 0x4Cu) |= 1u << 6;                          /* RCC_AHB2ENR.GPIOGEN */
    REG(RCC + 0x5Cu) |= 1u;                               /* RCC_APB1ENR2.LPUART1EN */
    ge_set_bits(GPIOG + 0x00u, 0xFu << 14, 0xAu << 14);   /* GPIOG_MODER: alternate */
    ge_set_bits(GPIOG + 0x20u, 0xF0000000u, 0x80000000u); /* GPIOG_AFRL: PG7 */
    ge_set_bits(GPIOG + 0x24u, 0xFu, 0x8u);               /* GPIOG_AFRH: PG8 */
}
