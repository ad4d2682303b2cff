/* NUCLEO-L4R5ZI, STM32L4R5: Cortex-M4 with FPU at 120 MHz, 2 MB flash, 640 KB RAM: UART. */
#define GE_UART_IS_LPUART
#include "../common/uart_stm32_tdr.h"

#define RCC 0x40021000u
#define PWR_CR2 0x40007004u
#define GPIOG 0x48001800u

/* LPUART1 on PG7 (TX) and PG8 (RX), which the ST-LINK passes on (UM2179, 6.10); alternate function 8 (data sheet, AF8). */
static void ge_uart_pins(void) {
    REG(RCC + 0x58u) |= 1u << 28;                         /* APB1ENR1.PWREN, RM0432 6.4.18 */
    REG(PWR_CR2) |= 1u << 9;                              /* IOSV: port G has its own supply, RM0432 5.4.2 */
    REG(RCC + 0x4Cu) |= 1u << 6;                          /* AHB2ENR.GPIOGEN, RM0432 6.4.16 */
    REG(RCC + 0x5Cu) |= 1u;                               /* APB1ENR2.LPUART1EN, RM0432 6.4.19 */
    ge_set_bits(GPIOG + 0x00u, 0xFu << 14, 0xAu << 14);   /* MODER: alternate, RM0432 8.4.1 */
    ge_set_bits(GPIOG + 0x20u, 0xF0000000u, 0x80000000u); /* AFRL: PG7, RM0432 8.4.9 */
    ge_set_bits(GPIOG + 0x24u, 0xFu, 0x8u);               /* AFRH: PG8, RM0432 8.4.10 */
}
