/* Loops with tail predication that the Helium kernels share: gcc 12 makes none by itself. */
#ifndef GE_MVE_H
#define GE_MVE_H

#include <stdint.h>

/* Without optimization gcc keeps registers to itself that the assembly needs. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__OPTIMIZE__)
#pragma GCC optimize("O1")
#endif

/* count >= 0 bytes; nothing beyond them is read or written. */
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

/* count >= 0 bytes of `value`. */
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

#endif
