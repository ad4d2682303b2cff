/* Arm MPS2, image AN385: Cortex-M3 (QEMU): UART. */
#include "../common/uart_cmsdk.h"
