/* Registers by address. */
#ifndef GE_REG_H
#define GE_REG_H

#include <stdint.h>

#define REG(address) (*(volatile uint32_t *)(uintptr_t)(address))

/* Waits until the bits have this value, at most some 10^5 reads: an emulator may not have the clock that we wait for.
 * Returns 1 where they have. */
static inline int32_t ge_wait_for(uintptr_t address, uint32_t mask, uint32_t value) {
    for (int32_t tries = 0; tries < 100000; ++tries) {
        if ((REG(address) & mask) == value) {
            return 1;
        }
    }
    return 0;
}

/* Changes the bits of `mask` to `value`. */
static inline void ge_set_bits(uintptr_t address, uint32_t mask, uint32_t value) {
    REG(address) = (REG(address) & ~mask) | value;
}

#endif
