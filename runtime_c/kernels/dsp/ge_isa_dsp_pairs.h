/* Products of int16 pairs for Cortex-M4, M7 and M33: three rows times two columns, which are computed at run time and were
 * packed before. 13 cycles for 12 products, and 4 for the loop over 48. */
#ifndef GE_ISA_DSP_PAIRS_H
#define GE_ISA_DSP_PAIRS_H

#include <stdint.h>

/* Words of a row or column that one turn of the loop takes: 8 numbers. */
#define GE_DSP_PAIRS_TURN 4

/* Words behind the rows, for the sums. */
#define GE_DSP_PAIRS_SUMS 6

/* r0: rows, r1: columns; r8: row 0, later row 2, r9: row 1, r10 and r11: columns; the sums in r3, r4, r5, r6, r12, lr. */
#define GE_DSP_PAIRS_WORD(b0, b1, a0, a1, a2)                                                                          \
    "    ldr r10, " b0 "\n"                                                                                            \
    "    ldr r11, [r1, #" b1 "]\n"                                                                                     \
    "    ldr r8, " a0 "\n"                                                                                             \
    "    ldr r9, [r0, #" a1 "]\n"                                                                                      \
    "    smlad r3, r8, r10, r3\n"                                                                                      \
    "    smlad r4, r8, r11, r4\n"                                                                                      \
    "    ldr r8, [r0, #" a2 "]\n"                                                                                      \
    "    smlad r5, r9, r10, r5\n"                                                                                      \
    "    smlad r6, r9, r11, r6\n"                                                                                      \
    "    smlad r12, r8, r10, r12\n"                                                                                    \
    "    smlad lr, r8, r11, lr\n"

/* The sums of row r and column c in word 2 * r + c of what is returned, which lies behind the rows and is overwritten. a: three
 * words, one of each row, then the next three; b: two words, one of each column. turns >= 1. */
static inline const int32_t *ge_dsp_three_by_two(int32_t *a, const int32_t *b, int32_t turns) {
    register int32_t *rows __asm__("r0") = a;
    register const int32_t *columns __asm__("r1") = b;
    register int32_t n __asm__("r2") = turns;
    __asm__ volatile("    movs r3, #0\n"
                     "    movs r4, #0\n"
                     "    movs r5, #0\n"
                     "    movs r6, #0\n"
                     "    mov.w r12, #0\n"
                     "    mov.w lr, #0\n"
                     "    .balign 4\n"
                     "1:\n" GE_DSP_PAIRS_WORD("[r1], #32", "-28", "[r0], #48", "-44", "-40")
                         GE_DSP_PAIRS_WORD("[r1, #-24]", "-20", "[r0, #-36]", "-32", "-28")
                             GE_DSP_PAIRS_WORD("[r1, #-16]", "-12", "[r0, #-24]", "-20", "-16")
                                 GE_DSP_PAIRS_WORD("[r1, #-8]", "-4", "[r0, #-12]", "-8",
                                                   "-4") "    subs r2, r2, #1\n"
                                                         "    bne.w 1b\n"
                                                         "    stm.w r0, {r3, r4, r5, r6, r12, lr}\n"
                     : "+r"(rows), "+r"(columns), "+r"(n)
                     :
                     : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
    return rows;
}

/* (a * b + 2^31) >> 32 */
static inline int32_t ge_dsp_smmulr(int32_t a, int32_t b) {
    int32_t y;
    __asm__("smmulr %0, %1, %2" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

/* x within 14 bits. */
static inline int32_t ge_dsp_ssat14(int32_t x) {
    int32_t y;
    __asm__("ssat %0, #14, %1" : "=r"(y) : "r"(x));
    return y;
}

/* x within 8 bits. */
static inline int8_t ge_dsp_ssat8(int32_t x) {
    int32_t y;
    __asm__("ssat %0, #8, %1" : "=r"(y) : "r"(x));
    return (int8_t)y;
}

/* Bytes 0 and 2, or 1 and 3, of a word as two int16, less those of `zero`. */
static inline int32_t ge_dsp_even(int32_t word, int32_t zero) {
    int32_t y;
    __asm__("sxtb16 %0, %1\n    ssub16 %0, %0, %2" : "=&r"(y) : "r"(word), "r"(zero));
    return y;
}

static inline int32_t ge_dsp_odd(int32_t word, int32_t zero) {
    int32_t y;
    __asm__("sxtb16 %0, %1, ror #8\n    ssub16 %0, %0, %2" : "=&r"(y) : "r"(word), "r"(zero));
    return y;
}

/* A number as both int16 of a word. */
static inline int32_t ge_dsp_both(int32_t x) {
    return (int32_t)((uint32_t)x << 16 | ((uint32_t)x & 0xFFFFu));
}

/* Packs n bytes, less a zero point, as words of pairs that lie `step` words apart; up to whole turns with zeros. */
static inline void ge_dsp_pack(const int8_t *x, int32_t n, int32_t zero_point, int32_t *out, int32_t step) {
    const int32_t zero = ge_dsp_both(zero_point);
    int32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        int32_t word;
        memcpy(&word, x + i, 4);
        out[0] = ge_dsp_even(word, zero);
        out[step] = ge_dsp_odd(word, zero);
        out += 2 * step;
    }
    for (; i < (n + 7) / 8 * 8; i += 2) {
        const int32_t low = i < n ? x[i] - zero_point : 0;
        const int32_t high = i + 1 < n ? x[i + 1] - zero_point : 0;
        *out = (int32_t)((uint32_t)high << 16 | ((uint32_t)low & 0xFFFFu));
        out += step;
    }
}

#endif
