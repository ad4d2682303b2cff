/* Loops with tail predication that the Helium kernels share: gcc 12 generates none by itself. */
#ifndef GE_MVE_H
#define GE_MVE_H

#include <stdint.h>

/* Without optimization gcc reserves registers that the assembly needs. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__OPTIMIZE__)
#pragma GCC optimize("O1")
#endif

/* Copies count >= 0 bytes; nothing beyond them is read or written. */
static inline void ge_mve_copy(int8_t *to, const int8_t *from, int32_t count) {
    __asm__ volatile("wlstp.8 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%[from]], #16\n"
                     "vstrb.8 q0, [%[to]], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [to] "+&r"(to), [from] "+&r"(from)
                     : [count] "r"(count)
                     : "lr", "q0", "memory");
}

/* Fills count >= 0 bytes with `value`. */
static inline void ge_mve_fill(int8_t *to, int32_t value, int32_t count) {
    __asm__ volatile("vdup.8 q0, %[value]\n"
                     "wlstp.8 lr, %[count], 2f\n"
                     "1:\n"
                     "vstrb.8 q0, [%[to]], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [to] "+&r"(to)
                     : [count] "r"(count), [value] "r"(value)
                     : "lr", "q0", "memory");
}

#define GE_MVE_MOVE_STEP 9362 /* 7 steps fit 16 bits */

/* Copies bytes unchanged between strided arrays; the magnitude of both steps is at most GE_MVE_MOVE_STEP. */
static inline void ge_mve_move(const int8_t *x, int32_t step_x, int8_t *y, int32_t step_y, int32_t count) {
    const int32_t back_x = step_x < 0 ? -7 * step_x : 0; /* offsets are unsigned */
    const int32_t back_y = step_y < 0 ? -7 * step_y : 0;
    x -= back_x;
    y -= back_y;
    __asm__ volatile("mov r4, #0\n"
                     "vidup.u16 q0, r4, #1\n"
                     "vdup.16 q1, %[back_x]\n"
                     "vdup.16 q2, %[back_y]\n"
                     "vmla.s16 q1, q0, %[step_x]\n"
                     "vmla.s16 q2, q0, %[step_y]\n"
                     "lsl %[step_x], %[step_x], #3\n"
                     "lsl %[step_y], %[step_y], #3\n"
                     "wlstp.16 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.u16 q0, [%[x], q1]\n"
                     "vstrb.16 q0, [%[y], q2]\n"
                     "add %[x], %[x], %[step_x]\n"
                     "add %[y], %[y], %[step_y]\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [x] "+&r"(x), [y] "+&r"(y), [step_x] "+&r"(step_x), [step_y] "+&r"(step_y)
                     : [back_x] "r"(back_x), [back_y] "r"(back_y), [count] "r"(count)
                     : "r4", "lr", "q0", "q1", "q2", "memory");
}

#endif
