/* Arm MPS2, image AN500: Cortex-M7 with double-precision FPU (QEMU): UART. */
#include "../common/uart_cmsdk.h"
