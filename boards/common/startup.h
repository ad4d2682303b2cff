/* Boot for every Cortex-M here: vector table, .data, .bss, then main(). A board's startup.c includes this after one of
 * reset.h (no FPU) or reset_fpu.h, and one of fault_v6m.h or fault_v7m.h. */
#include <stdint.h>
#include <string.h>

#include "board.h"

extern uint32_t ge_data_start[], ge_data_end[], ge_data_load[];
extern uint32_t ge_bss_start[], ge_bss_end[];
extern uint32_t ge_arena_start[], ge_arena_end[];

int main(void);
void ge_reset(void);
void ge_boot(void) __attribute__((noreturn, used));
void ge_fault_entry(void);
void ge_tick_handler(void);

static size_t bytes_between(const uint32_t *start, const uint32_t *end) {
    return (size_t)((uintptr_t)end - (uintptr_t)start);
}

/* A board that must set up its clock says how. */
void ge_clock_init(void) __attribute__((weak));

/* The reset handler jumps here; main() ends the firmware itself, where it returns there is nobody to return to. */
void ge_boot(void) {
    if (ge_clock_init != 0) {
        ge_clock_init();
    }
    memcpy(ge_data_start, ge_data_load, bytes_between(ge_data_start, ge_data_end));
    memset(ge_bss_start, 0, bytes_between(ge_bss_start, ge_bss_end));
    memset(ge_arena_start, 0, bytes_between(ge_arena_start, ge_arena_end));
    (void)main();
    for (;;) {
    }
}

#define AIRCR (*(volatile uint32_t *)0xE000ED0Cu) /* ARMv6-M ARM B3.2.6, ARMv7-M ARM B3.2.6 */
#define AIRCR_RESET 0x05FA0004u                   /* the key, and SYSRESETREQ */

void ge_board_reset(void) {
    __asm__ volatile("dsb");
    AIRCR = AIRCR_RESET;
    for (;;) {
    }
}

/* The exceptions of the core (ARMv6-M ARM B1.5.2, ARMv7-M ARM B1.5.2); no peripheral interrupt is ever enabled. */
typedef void (*vector)(void);
typedef struct {
    uint32_t *stack_top;
    vector handlers[15];
} vector_table;

extern const vector_table ge_vectors;
__attribute__((section(".vectors"), used)) const vector_table ge_vectors = {
    ge_stack_top,
    {
        ge_reset,                /* 1 Reset */
        ge_fault_entry,          /* 2 NMI */
        ge_fault_entry,          /* 3 HardFault */
        ge_fault_entry,          /* 4 MemManage (from ARMv7-M on) */
        ge_fault_entry,          /* 5 BusFault */
        ge_fault_entry,          /* 6 UsageFault */
        ge_fault_entry,          /* 7 SecureFault (ARMv8-M) */
        0, 0, 0, ge_fault_entry, /* 11 SVCall */
        ge_fault_entry,          /* 12 DebugMonitor */
        0, ge_fault_entry,       /* 14 PendSV */
        ge_tick_handler,         /* 15 SysTick */
    },
};
