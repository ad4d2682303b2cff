/* Unpacks weights that are codes of four bits for a table of sixteen numbers: PSHUFB looks up sixteen at a time.
 * ge_unpack_runs.h has the format. */
#ifndef GE_X86_UNPACK_TABLE_H
#define GE_X86_UNPACK_TABLE_H

#include "ge_unpack_runs.h"
#include "ge_x86_portable.h"

/* Unpacks constants to memory, which must be aligned to a word. Returns where the unpacked constants end. */
static GE_X86_FN void *ge_x86_unpack_table(const uint32_t *packed, void *memory) {
    const uint8_t *const table = (const uint8_t *)(packed + GE_UNPACK_TABLE);
    ge_unpack_place at = ge_unpack_first(packed, packed + GE_UNPACK_TABLE_HEAD, memory);
    while (ge_unpack_next(&at)) {
        const uint32_t half = at.run[1] / 2;
        uint32_t i = 0;
#if GE_X86_FLOATS > 1 /* not in portable C */
        const __m128i numbers = _mm_loadu_si128((const __m128i *)(const void *)table), low = _mm_set1_epi8(15);
        for (; i + 4 <= half; i += 4, at.from += 4, at.to += 4) {
            const __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)at.from);
            const __m128i first = _mm_and_si128(codes, low), second = _mm_and_si128(_mm_srli_epi16(codes, 4), low);
            _mm_storeu_si128((__m128i *)(void *)at.to, _mm_shuffle_epi8(numbers, first));
            _mm_storeu_si128((__m128i *)(void *)(at.to + half), _mm_shuffle_epi8(numbers, second));
        }
#endif
        for (; i < half; i++, at.to++) {
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
