/* Unpacks weights of int4, two in a byte, into the int8 weights that a kernel reads. ge_unpack_runs.h has the format. */
#ifndef GE_UNPACK_H
#define GE_UNPACK_H

#include "ge_unpack_runs.h"

/* Returns the four numbers in the lower halves of the bytes, each stored plus 8, as int8 in -8..7. */
static inline uint32_t ge_unpack_bytes(uint32_t halves) {
    return ((halves & 0x0f0f0f0fu) + 0x78787878u) ^ 0x80808080u;
}

/* Unpacks constants to memory, which must be aligned to a word. Returns where the unpacked constants end. */
static void *ge_unpack(const uint32_t *packed, void *memory) {
    ge_unpack_place at = ge_unpack_first(packed, packed + GE_UNPACK_HEAD, memory);
    while (ge_unpack_next(&at)) {
        const uint32_t half = at.run[1] / 2;
        for (uint32_t i = half; i > 0; i--, at.to++) {
            const uint32_t word = *at.from++;
            at.to[0] = ge_unpack_bytes(word);
            at.to[half] = ge_unpack_bytes(word >> 4);
        }
        at.to += half;
        if (at.run[1] % 2 != 0) {
            *at.to++ = ge_unpack_bytes(ge_unpack_odd(&at));
        }
    }
    return (uint8_t *)memory + packed[GE_UNPACK_BYTES];
}

#endif
