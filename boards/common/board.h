/* What a board gives to the firmware. Boot code calls main() with the clock of SysTick running and the UART off.
 * GE_UART_BASE, GE_UART_BAUD, GE_CLOCK_HZ and others come from the generated ge_board.h, which is made from board.toml. */
#ifndef GE_BOARD_INTERFACE_H
#define GE_BOARD_INTERFACE_H

#include <stdint.h>

/* Switches the UART on: 8 data bits, no parity, 1 stop bit, GE_UART_BAUD. */
void ge_uart_init(void);

/* Sends one byte. Waits for room about a second; where there is none, drops the byte, and those that follow at once. */
void ge_uart_put(uint8_t byte);

/* The next byte that was received, 0 .. 255, or -1 where none has come. */
int32_t ge_uart_get(void);

/* Starts the firmware again, as at power-on. */
void ge_board_reset(void) __attribute__((noreturn));

/* Starts the tick counter at zero. It runs at GE_CLOCK_HZ and interrupts every `period` ticks (2 .. 2^24); the
 * smaller the period, the more interrupts the measured code pays for. GE_TICKS_PERIOD_MAX disturbs it least. */
#define GE_TICKS_PERIOD_MAX 0x1000000u
void ge_ticks_start(uint32_t period);

/* Stops the counter; no more interrupts. */
void ge_ticks_stop(void);

/* Ticks since the start, and how many interrupts they include (the caller subtracts their cost). */
typedef struct {
    uint64_t ticks;
    uint32_t interrupts;
} ge_ticks;
ge_ticks ge_ticks_read(void);

/* Called by the fault handler with what the core says; must not return. v7-M cores fill all; ARMv6-M has neither
 * status nor addresses and leaves them zero. RISC-V: mcause, mepc, ra, mstatus, and mtval as mmfar. */
typedef struct {
    uint32_t exception;   /* number of the exception: 3 HardFault, 4 MemManage, 5 BusFault, 6 UsageFault ... */
    uint32_t pc, lr, psr; /* of the code that faulted; zero where its stack cannot be read */
    uint32_t cfsr, hfsr, mmfar, bfar; /* ARMv7-M ARM B3.2.15-18 */
} ge_fault;
void ge_fault_report(const ge_fault *fault) __attribute__((noreturn));

/* The stack: [ge_stack_limit, ge_stack_top), growing down; from the linker script. */
extern uint32_t ge_stack_limit[], ge_stack_top[];

#endif
