/* Stellaris LM3S6965 memories around a Cortex-M0: 256 KB flash, 64 KB RAM (QEMU only): UART. */
#include "../common/uart_pl011.h"
