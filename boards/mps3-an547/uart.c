/* Arm MPS3, image AN547: Cortex-M55 with Helium, secure state (QEMU): UART. */
#include "../common/uart_cmsdk.h"
