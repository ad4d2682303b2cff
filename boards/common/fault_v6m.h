/* Faults of ARMv6-M: one HardFault, no status registers (ARMv6-M ARM B1.5.14). */
#include "fault_entry.h"

void ge_fault_in_c(const uint32_t *frame) {
    const ge_fault fault = fault_from(frame);
    ge_fault_report(&fault);
}
