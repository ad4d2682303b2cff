/* Stellaris LM3S6965 evaluation board: Cortex-M3, 256 KB flash, 64 KB RAM (QEMU): UART. */
#include "../common/uart_pl011.h"
