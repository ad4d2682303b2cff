/* Unpacks 4-bit weights, two in a byte, into the int8 weights that a kernel reads. glowembed/kernels/shared/unpacked.py
 * packs them. */
#ifndef GE_UNPACK_H
#define GE_UNPACK_H

#include "ge.h"

/* Returns the four numbers in the lower halves of the bytes, each stored plus 8, as int8 in -8..7. */
static inline uint32_t ge_unpack_bytes(uint32_t halves) {
    return ((halves & 0x0f0f0f0fu) + 0x78787878u) ^ 0x80808080u;
}

/* Packed constants begin with four words: their size in words, their size in bytes when unpacked, the number of output
 * channels that they serve, and the number of runs. Each run then has three words: how often it repeats, and how many
 * words as they are and how many unpacked words one repetition has. The repetitions of all runs follow. The lower
 * halves of a repetition's packed words give the first half of its unpacked words, the upper halves the second. */
enum { GE_UNPACK_SIZE, GE_UNPACK_BYTES, GE_UNPACK_CHANNELS, GE_UNPACK_RUNS, GE_UNPACK_HEAD };

/* Unpacks constants to memory, which must be aligned to a word. Returns where the unpacked constants end. */
static void *ge_unpack(const uint32_t *packed, void *memory) {
    const uint32_t *run = packed + GE_UNPACK_HEAD;
    const uint32_t *from = run + 3 * packed[GE_UNPACK_RUNS];
    ge_word *to = (ge_word *)memory;
    for (uint32_t runs = packed[GE_UNPACK_RUNS]; runs > 0; runs--, run += 3) {
        const uint32_t half = run[2] / 2;
        for (uint32_t repeat = run[0]; repeat > 0; repeat--) {
            for (uint32_t i = run[1]; i > 0; i--) {
                *to++ = *from++;
            }
            for (uint32_t i = half; i > 0; i--, to++) {
                const uint32_t word = *from++;
                to[0] = ge_unpack_bytes(word);
                to[half] = ge_unpack_bytes(word >> 4);
            }
            to += half;
            if (run[2] % 2 != 0) {
                *to++ = ge_unpack_bytes(*from++);
            }
        }
    }
    return (uint8_t *)memory + packed[GE_UNPACK_BYTES];
}

#endif
