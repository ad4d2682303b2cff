/* The instructions that the harness needs, for RISC-V. */
#ifndef GE_CORE_H
#define GE_CORE_H

#include <stdint.h>

/* The body of a naked function that returns at once. */
#define GE_CORE_RETURN "ret\n"

/* A semihosting call (RISC-V Semihosting, section 2.1): three uncompressed instructions in one page, with the operation
 * in a0 and the address of its parameters in a1. The result is in a0. */
static inline int32_t ge_core_semihost(uint32_t operation, const void *parameters) {
    register uint32_t a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = parameters;
    __asm__ volatile(".balign 16\n" /* before norvc, because the linker also fills the gap with compressed
                                     * instructions */
                     ".option push\n"
                     ".option norvc\n"
                     "    slli x0, x0, 0x1f\n"
                     "    ebreak\n"
                     "    srai x0, x0, 7\n"
                     ".option pop\n"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return (int32_t)a0;
}

/* Executes 2 * count + 1 instructions. */
static inline void ge_core_loop(uint32_t count) {
    __asm__ volatile("    mv   t0, %0\n"
                     "1:  addi t0, t0, -1\n"
                     "    bnez t0, 1b\n"
                     :
                     : "r"(count)
                     : "t0");
}

static inline uint32_t *ge_core_stack_pointer(void) {
    uint32_t *here;
    __asm__ volatile("mv %0, sp" : "=r"(here));
    return here;
}

#endif
