/* Reset of a core without an FPU: the stack pointer is loaded by the core (ARMv6-M ARM B1.5.5). */
void ge_reset(void);
__attribute__((naked)) void ge_reset(void) {
    __asm__ volatile(".syntax unified\n"
                     "    ldr r0, =ge_boot\n"
                     "    bx  r0\n");
}
