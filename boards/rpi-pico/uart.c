/* Raspberry Pi Pico, RP2040: Cortex-M0+ at 125 MHz, 2 MB flash, 264 KB RAM: UART. */
#include "../common/reg.h"
#include "../common/uart_pl011.h"

/* The boot ROM checks and runs these 256 bytes (RP2040 data sheet 2.8.1.3.1): they make the flash readable in place, by
 * its slow but universal command 03h, and start the firmware behind them. The checksum in the last four bytes is made
 * with the UF2 file (glowembed/run/flash.py). Registers of the SSI: 4.10.13. */
__attribute__((naked, section(".boot2"), used)) static void boot2(void) {
    __asm__ volatile(".syntax unified\n"
                     "    ldr  r0, =0x18000000\n"
                     "    movs r1, #0\n"
                     "    str  r1, [r0, #0x08]\n" /* SSIENR: off */
                     "    movs r1, #4\n"
                     "    str  r1, [r0, #0x14]\n" /* BAUDR: clock / 4 */
                     "    ldr  r1, =0x001F0300\n"
                     "    str  r1, [r0, #0x00]\n" /* CTRLR0: 32 bits, EEPROM read */
                     "    movs r1, #0\n"
                     "    str  r1, [r0, #0x04]\n" /* CTRLR1: one word at a time */
                     "    ldr  r1, =0x03000218\n"
                     "    ldr  r2, =0x180000F4\n"
                     "    str  r1, [r2]\n" /* SPI_CTRLR0: command 03h, 24 address bits */
                     "    movs r1, #1\n"
                     "    str  r1, [r0, #0x08]\n" /* SSIENR: on */
                     "    ldr  r0, =0x10000100\n"
                     "    ldr  r1, =0xE000ED08\n" /* VTOR */
                     "    str  r0, [r1]\n"
                     "    ldmia r0!, {r1, r2}\n"
                     "    msr  msp, r1\n"
                     "    bx   r2\n"
                     "    .ltorg\n");
}
