/* Boot of a RISC-V core in machine mode: the first instructions, .data, .bss, faults, then main(). A board's startup.c
 * includes this and says how the board is reset. The Privileged Architecture (version 1.12) names the registers. */
#include <stdint.h>
#include <string.h>

#include "board.h"

extern uint32_t ge_data_start[], ge_data_end[], ge_data_load[];
extern uint32_t ge_bss_start[], ge_bss_end[];
extern uint32_t ge_arena_start[], ge_arena_end[];

int main(void);
void ge_boot(void) __attribute__((noreturn, used));
void ge_fault_entry(void);
void ge_fault_in_c(void) __attribute__((noreturn, used));

/* Lies where the core begins. The section is as long as the vector table of a Cortex-M, which sections.ld asserts: without
 * relaxation, which would leave room for an alignment that it has not seen. */
__asm__(".section .vectors, \"ax\"\n"
        ".option push\n"
        ".option norelax\n"
        "    .balign 64\n"
        "    .globl ge_reset\n"
        "    .type ge_reset, @function\n"
        "ge_reset:\n"
        "    la   sp, ge_stack_top\n"
        "    la   t0, ge_fault_entry\n"
        "    csrw mtvec, t0\n"
        "    tail ge_boot\n"
        "    .balign 64\n"
        "    .size ge_reset, . - ge_reset\n"
        ".option pop\n"
        ".text\n");

static size_t bytes_between(const uint32_t *start, const uint32_t *end) {
    return (size_t)((uintptr_t)end - (uintptr_t)start);
}

#define GUARD_BYTES 4096u
#define PMP_LOCKED_NAPOT 0x98u /* 3.7.1: L, A = NAPOT; no permission, in machine mode too */

/* The bytes below the stack may not be touched, so that a stack that runs out faults instead of changing what lies there. */
static void guard_stack(void) {
    const uint32_t address = (uint32_t)((uintptr_t)ge_stack_limit - GUARD_BYTES);
    __asm__ volatile("csrw pmpaddr0, %0\n"
                     "csrw pmpcfg0, %1\n"
                     :
                     : "r"((address >> 2) | (GUARD_BYTES / 8u - 1u)), "r"(PMP_LOCKED_NAPOT));
}

void ge_boot(void) {
    memcpy(ge_data_start, ge_data_load, bytes_between(ge_data_start, ge_data_end));
    memset(ge_bss_start, 0, bytes_between(ge_bss_start, ge_bss_end));
    memset(ge_arena_start, 0, bytes_between(ge_arena_start, ge_arena_end));
    guard_stack();
    (void)main();
    for (;;) {
    }
}

/* Every fault, on a fresh stack: the old one may be what broke. mtvec needs four bytes of alignment. */
__attribute__((naked, aligned(4))) void ge_fault_entry(void) {
    __asm__ volatile("    la   sp, ge_stack_top\n"
                     "    tail ge_fault_in_c\n");
}

#define READ_CSR(name, into) __asm__ volatile("csrr %0, " name : "=r"(into))

void ge_fault_in_c(void) {
    ge_fault fault = {0};
    READ_CSR("mcause", fault.exception);
    READ_CSR("mepc", fault.pc);
    READ_CSR("mstatus", fault.psr);
    READ_CSR("mtval", fault.mmfar);
    ge_fault_report(&fault);
}
