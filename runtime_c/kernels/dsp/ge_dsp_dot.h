/* Sums of products of int8 numbers in their stored form, for the kernels of other laws on Cortex-M4, M7 and M33.
 *
 * SXTB16 makes (x0, x2) and (x1, x3) of a word, and SMLAD multiplies both. Two channels share the expanded x: 14 cycles
 * for the 8 products of four numbers, and 3 for the loop over eight numbers. */
#ifndef GE_DSP_DOT_H
#define GE_DSP_DOT_H

#include <stdint.h>

#define GE_DSP_DOT_FOUR                                                                                                \
    "    ldr.w %[s], [%[x]], #4\n"                                                                                     \
    "    ldr.w %[t], [%[a]], #4\n"                                                                                     \
    "    ldr.w %[u], [%[b]], #4\n"                                                                                     \
    "    sxtb16 %[even], %[s]\n"                                                                                       \
    "    sxtb16 %[s], %[s], ror #8\n"                                                                                  \
    "    sxtb16 %[v], %[t]\n"                                                                                          \
    "    sxtb16 %[t], %[t], ror #8\n"                                                                                  \
    "    smlad %[sum_a], %[even], %[v], %[sum_a]\n"                                                                    \
    "    smlad %[sum_a], %[s], %[t], %[sum_a]\n"                                                                       \
    "    sxtb16 %[v], %[u]\n"                                                                                          \
    "    sxtb16 %[u], %[u], ror #8\n"                                                                                  \
    "    smlad %[sum_b], %[even], %[v], %[sum_b]\n"                                                                    \
    "    smlad %[sum_b], %[s], %[u], %[sum_b]\n"

/* Adds x[i] * a[i] to sums[0] and x[i] * b[i] to sums[1], for `count` >= 0 numbers. */
static inline void ge_dsp_dot(const int8_t *x, const int8_t *a, const int8_t *b, int32_t count, int32_t *sums) {
    int32_t sum_a = sums[0], sum_b = sums[1], left = count & ~7;
    uint32_t s, t, u, v, even;
    if (left > 0) {
        __asm__ volatile(
            "    .balign 4\n"
            "1:\n" GE_DSP_DOT_FOUR "    subs %[n], %[n], #8\n" GE_DSP_DOT_FOUR "    bne.w 1b\n"
            : [x] "+&r"(x), [a] "+&r"(a), [b] "+&r"(b), [n] "+&r"(left), [sum_a] "+&r"(sum_a), [sum_b] "+&r"(sum_b),
              [s] "=&r"(s), [t] "=&r"(t), [u] "=&r"(u), [v] "=&r"(v), [even] "=&r"(even)
            :
            : "cc", "memory");
    }
    for (int32_t i = 0; i < (count & 7); i++) {
        sum_a += x[i] * a[i];
        sum_b += x[i] * b[i];
    }
    sums[0] = sum_a;
    sums[1] = sum_b;
}

/* Adds x[i] to the sum, for `count` >= 0 numbers. */
__attribute__((unused)) static inline int32_t ge_dsp_add(const int8_t *x, int32_t count, int32_t sum) {
    int32_t s;
    for (; count >= 4; count -= 4) {
        __asm__ volatile("    ldr.w %[s], [%[x]], #4\n"
                         "    sxtb16 %[s], %[s]\n"
                         "    smlad %[sum], %[s], %[ones], %[sum]\n"
                         "    ldr %[s], [%[x], #-4]\n"
                         "    sxtb16 %[s], %[s], ror #8\n"
                         "    smlad %[sum], %[s], %[ones], %[sum]\n"
                         : [x] "+&r"(x), [sum] "+&r"(sum), [s] "=&r"(s)
                         : [ones] "r"(0x00010001)
                         : "memory");
    }
    for (int32_t i = 0; i < count; i++) {
        sum += x[i];
    }
    return sum;
}

#endif
