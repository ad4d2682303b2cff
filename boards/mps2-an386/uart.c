/* Arm MPS2, image AN386: Cortex-M4 with FPU (QEMU): UART. */
#include "../common/uart_cmsdk.h"
