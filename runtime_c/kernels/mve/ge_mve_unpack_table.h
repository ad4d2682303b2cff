/* Unpacks weights that are codes of four bits for a table of sixteen numbers, with Helium's gathers of bytes.
 * ge_unpack_runs.h has the format. */
#ifndef GE_MVE_UNPACK_TABLE_H
#define GE_MVE_UNPACK_TABLE_H

#include <arm_mve.h>

#include "ge_unpack_runs.h"

/* Unpacks constants to memory, which must be aligned to a word. Returns where the unpacked constants end. */
static void *ge_mve_unpack_table(const uint32_t *packed, void *memory) {
    const uint8_t *const table = (const uint8_t *)(packed + GE_UNPACK_TABLE);
    const uint8x16_t low = vdupq_n_u8(15);
    ge_unpack_place at = ge_unpack_first(packed, packed + GE_UNPACK_TABLE_HEAD, memory);
    while (ge_unpack_next(&at)) {
        const uint32_t bytes = at.run[1] / 2 * 4;
        const uint8_t *from = (const uint8_t *)at.from;
        uint8_t *to = (uint8_t *)at.to;
        for (int32_t rest = (int32_t)bytes; rest > 0; rest -= 16, from += 16, to += 16) {
            const mve_pred16_t some = vctp8q((uint32_t)rest);
            const uint8x16_t codes = vldrbq_z_u8(from, some);
            vstrbq_p_u8(to, vldrbq_gather_offset_z_u8(table, vandq_u8(codes, low), some), some);
            vstrbq_p_u8(to + bytes, vldrbq_gather_offset_z_u8(table, vshrq_n_u8(codes, 4), some), some);
        }
        at.from += bytes / 4;
        at.to += bytes / 2;
        if (at.run[1] % 2 != 0) {
            *at.to++ = ge_unpack_numbers(table, ge_unpack_odd(&at));
        }
    }
    return (uint8_t *)memory + packed[GE_UNPACK_BYTES];
}

#endif
