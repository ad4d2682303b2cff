/* Arm MPS2, image AN505: Cortex-M33 with FPU, secure state (QEMU): UART. */
#include "../common/uart_cmsdk.h"
