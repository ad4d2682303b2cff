/* Reset of a core with an FPU or Helium: access is granted before any C code, whose prologue may save FPU registers.
 * CPACR 0xE000ED88: CP10 and CP11 full access (ARMv7-M ARM B3.2.20, ARMv8-M ARM D1.2.14), then DSB and ISB as B3.2.20
 * asks. */
void ge_reset(void);
__attribute__((naked)) void ge_reset(void) {
    __asm__ volatile(".syntax unified\n"
                     "    ldr r0, =0xE000ED88\n"
                     "    ldr r1, [r0]\n"
                     "    ldr r2, =0x00F00000\n"
                     "    orrs r1, r2\n"
                     "    str r1, [r0]\n"
                     "    dsb\n"
                     "    isb\n"
                     "    ldr r0, =ge_boot\n"
                     "    bx  r0\n");
}
