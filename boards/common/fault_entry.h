/* Entry of every fault: finds the frame that the core has pushed (ARMv7-M ARM B1.5.6: EXC_RETURN bit 2 says which
 * stack), moves to a fresh stack, as the old one may be what broke, and goes on in C. */
void ge_fault_entry(void);
void ge_fault_in_c(const uint32_t *frame) __attribute__((noreturn, used));

__attribute__((naked)) void ge_fault_entry(void) {
    __asm__ volatile(".syntax unified\n"
                     "    mov  r1, lr\n"
                     "    movs r2, #4\n"
                     "    mrs  r0, msp\n"
                     "    tst  r1, r2\n"
                     "    beq  1f\n"
                     "    mrs  r0, psp\n"
                     "1:  ldr  r1, =ge_stack_top\n"
                     "    mov  sp, r1\n"
                     "    ldr  r1, =ge_fault_in_c\n"
                     "    bx   r1\n");
}

static int on_the_stack(const uint32_t *frame) {
    return (uintptr_t)frame >= (uintptr_t)ge_stack_limit && (uintptr_t)(frame + 8) <= (uintptr_t)ge_stack_top;
}

/* The frame is r0-r3, r12, lr, pc, psr; the fault of a stack that has run out has none that could be read. */
static ge_fault fault_from(const uint32_t *frame) {
    ge_fault fault = {0};
    uint32_t ipsr;
    __asm__ volatile("mrs %0, ipsr" : "=r"(ipsr));
    fault.exception = ipsr;
    if (on_the_stack(frame)) {
        fault.lr = frame[5];
        fault.pc = frame[6];
        fault.psr = frame[7];
    }
    return fault;
}
