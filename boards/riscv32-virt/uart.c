/* QEMU's virt machine with a 32-bit RISC-V core: UART. */
#include "../common/uart_ns16550.h"
