/* nRF52840-DK: Cortex-M4 with FPU at 64 MHz, 1 MB flash, 256 KB RAM: UART. */
/* The UART without DMA is that of the nRF51 (product specification 1.7, 6.33: "UART", deprecated). TXD P0.06 and RXD P0.08
 * go to the debugger's serial port (nRF52840-DK user guide, 8.2). */
#define GE_UART_TX_PIN 6u
#define GE_UART_RX_PIN 8u
#include "../common/uart_nrf51.h"
