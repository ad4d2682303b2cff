/* Unpacks weights that are codes of four bits for a table of sixteen numbers. ge_unpack_runs.h has the format. */
#ifndef GE_UNPACK_TABLE_H
#define GE_UNPACK_TABLE_H

#include "ge_unpack_runs.h"

/* Unpacks constants to memory, which must be aligned to a word. Returns where the unpacked constants end. */
static void *ge_unpack_table(const uint32_t *packed, void *memory) {
    const uint8_t *const table = (const uint8_t *)(packed + GE_UNPACK_TABLE);
    ge_unpack_place at = ge_unpack_first(packed, packed + GE_UNPACK_TABLE_HEAD, memory);
    while (ge_unpack_next(&at)) {
        const uint32_t half = at.run[1] / 2;
        for (uint32_t i = half; i > 0; i--, at.to++) {
            const uint32_t word = *at.from++;
            at.to[0] = ge_unpack_numbers(table, word);
            at.to[half] = ge_unpack_numbers(table, word >> 4);
        }
        at.to += half;
        if (at.run[1] % 2 != 0) {
            *at.to++ = ge_unpack_numbers(table, ge_unpack_odd(&at));
        }
    }
    return (uint8_t *)memory + packed[GE_UNPACK_BYTES];
}

#endif
