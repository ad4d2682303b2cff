/* nRF51 with 16 MB flash and 16 MB RAM: a Cortex-M0 for models of any size (QEMU only): UART. */
#include "../common/uart_nrf51.h"
