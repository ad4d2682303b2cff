/* The instructions that the harness needs, for Cortex-M. */
#ifndef GE_CORE_H
#define GE_CORE_H

#include <stdint.h>

/* The body of a naked function that returns at once. */
#define GE_CORE_RETURN "bx lr\n"

/* A semihosting call: BKPT 0xAB with the operation in r0 and the address of its parameters in r1. The result is in
 * r0. */
static inline int32_t ge_core_semihost(uint32_t operation, const void *parameters) {
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = parameters;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return (int32_t)r0;
}

/* Executes 2 * count + 1 instructions. */
static inline void ge_core_loop(uint32_t count) {
    __asm__ volatile(".syntax unified\n"
                     "    movs r3, %0\n"
                     "1:  subs r3, r3, #1\n"
                     "    bne  1b\n"
                     :
                     : "l"(count)
                     : "r3", "cc");
}

static inline uint32_t *ge_core_stack_pointer(void) {
    uint32_t *here;
    __asm__ volatile("mov %0, sp" : "=r"(here));
    return here;
}

#endif
