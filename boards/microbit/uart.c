/* BBC micro:bit, nRF51822: Cortex-M0, 256 KB flash, 16 KB RAM (QEMU): UART. */
#include "../common/uart_nrf51.h"
