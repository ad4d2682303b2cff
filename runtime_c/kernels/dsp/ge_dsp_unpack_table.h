/* Unpacks weights that are codes of four bits for a table of sixteen numbers, on cores with the DSP extension.
 * ge_unpack_runs.h has the format.
 *
 * Many kernels read pairs of weights a and b as 256 * a + b: if b is negative, the upper byte is a - 1. The table has a
 * and b, and one SSUB16 subtracts what the lower bytes borrow. */
#ifndef GE_DSP_UNPACK_TABLE_H
#define GE_DSP_UNPACK_TABLE_H

#include "ge_unpack_runs.h"

/* Returns the numbers for the four codes in the lower halves of the bytes. borrows: 0x00800080 for pairs, else 0. The
 * four loads follow each other, so that all but the first take one cycle. */
static inline uint32_t ge_dsp_unpack_numbers(const uint8_t *table, uint32_t codes, uint32_t borrows) {
    uint32_t a = codes & 15, b = codes >> 8 & 15, c = codes >> 16 & 15, d = codes >> 24 & 15, pairs;
    __asm__("ldrb %0, [%4, %0]\n\t"
            "ldrb %1, [%4, %1]\n\t"
            "ldrb %2, [%4, %2]\n\t"
            "ldrb %3, [%4, %3]"
            : "+&r"(a), "+&r"(b), "+&r"(c), "+&r"(d)
            : "r"(table), "m"(*(const uint8_t(*)[16])(const void *)table));
    const uint32_t numbers = a | b << 8 | c << 16 | d << 24;
    __asm__("ssub16 %0, %1, %2" : "=r"(pairs) : "r"(numbers), "r"((numbers & borrows) << 1));
    return pairs;
}

/* Unpacks constants to memory, which must be aligned to a word. Returns where the unpacked constants end. */
static void *ge_dsp_unpack_table(const uint32_t *packed, void *memory) {
    const uint8_t *const table = (const uint8_t *)(packed + GE_UNPACK_TABLE);
    const uint32_t borrows = packed[GE_UNPACK_BORROWS];
    ge_unpack_place at = ge_unpack_first(packed, packed + GE_UNPACK_TABLE_HEAD, memory);
    while (ge_unpack_next(&at)) {
        const uint32_t half = at.run[1] / 2;
        for (uint32_t i = half; i > 0; i--, at.to++) {
            const uint32_t word = *at.from++;
            at.to[0] = ge_dsp_unpack_numbers(table, word, borrows);
            at.to[half] = ge_dsp_unpack_numbers(table, word >> 4, borrows);
        }
        at.to += half;
        if (at.run[1] % 2 != 0) {
            *at.to++ = ge_dsp_unpack_numbers(table, ge_unpack_odd(&at), borrows);
        }
    }
    return (uint8_t *)memory + packed[GE_UNPACK_BYTES];
}

#endif
