/* Faults of ARMv7-M and ARMv8-M Mainline: with the status registers of ARMv7-M ARM B3.2.15 (CFSR 0xE000ED28),
 * B3.2.16 (HFSR 0xE000ED2C), B3.2.17 (MMFAR 0xE000ED34), B3.2.18 (BFAR 0xE000ED38). */
#include "fault_entry.h"

static uint32_t read_register(uintptr_t address) {
    return *(volatile uint32_t *)address;
}

void ge_fault_in_c(const uint32_t *frame) {
    ge_fault fault = fault_from(frame);
    fault.cfsr = read_register(0xE000ED28u);
    fault.hfsr = read_register(0xE000ED2Cu);
    fault.mmfar = read_register(0xE000ED34u);
    fault.bfar = read_register(0xE000ED38u);
    ge_fault_report(&fault);
}
