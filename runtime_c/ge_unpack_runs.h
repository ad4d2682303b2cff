/* The format of constants with weights of four bits, two in a byte, and what the functions that unpack them share.
 * glowembed/kernels/shared/unpacked.py packs them. */
#ifndef GE_UNPACK_RUNS_H
#define GE_UNPACK_RUNS_H

#include "ge.h"

/* Packed constants begin with three words: their size in words, their size in bytes when unpacked, and the number of
 * output channels that they serve in 20 bits and of runs in 12. Codes for a table then have its sixteen numbers in four
 * words, and a word with the bits whose borrows are subtracted (ge_dsp_unpack_table.h), or 0. Each run then has two
 * words: how often it repeats and how many words as they are one repetition has, in 16 bits each, and how many unpacked
 * words. The repetitions of all runs follow. The lower halves of a repetition's packed words give the first half of its
 * unpacked words, the upper halves the second. Where their number is odd, the last unpacked word comes from the lower
 * halves of a word of its own, and that of the next such repetition from its upper halves. */
enum { GE_UNPACK_SIZE, GE_UNPACK_BYTES, GE_UNPACK_CHANNELS, GE_UNPACK_HEAD };
enum { GE_UNPACK_TABLE = GE_UNPACK_HEAD, GE_UNPACK_BORROWS = GE_UNPACK_TABLE + 4, GE_UNPACK_TABLE_HEAD };

#define GE_UNPACK_CHANNELS_OF(packed) ((int32_t)((packed)[GE_UNPACK_CHANNELS] & 0xFFFFFu))

/* Where an unpacking is: the next run, the next packed word, the next unpacked word, which is aligned to a word, and
 * what remains. */
typedef struct {
    const uint32_t *run;
    const uint32_t *from;
    ge_word *to;
    uint32_t runs;
    uint32_t repeat;
    const uint32_t *odd; /* a word whose upper halves are still to be unpacked, or NULL */
} ge_unpack_place;

/* Returns where the unpacking of constants to memory begins. `run` is the first run. */
static inline ge_unpack_place ge_unpack_first(const uint32_t *packed, const uint32_t *run, void *memory) {
    const uint32_t runs = packed[GE_UNPACK_CHANNELS] >> 20;
    const ge_unpack_place first = {run, run + 2 * runs, (ge_word *)memory, runs, run[0] & 0xFFFFu, NULL};
    return first;
}

/* Copies the words as they are of the next repetition. Returns whether there is one; its other words are then those of
 * `run`. */
static inline int32_t ge_unpack_next(ge_unpack_place *at) {
    if (at->repeat == 0) {
        at->run += 2;
        at->runs--;
        at->repeat = at->runs > 0 ? at->run[0] & 0xFFFFu : 0;
    }
    if (at->runs == 0) {
        return 0;
    }
    at->repeat--;
    for (uint32_t i = at->run[0] >> 16; i > 0; i--) {
        *at->to++ = *at->from++;
    }
    return 1;
}

/* Returns the codes of the last word of an odd number, in the lower halves of the bytes. */
static inline uint32_t ge_unpack_odd(ge_unpack_place *at) {
    if (at->odd != NULL) {
        const uint32_t word = *at->odd >> 4;
        at->odd = NULL;
        return word;
    }
    at->odd = at->from;
    return *at->from++;
}

/* Returns the numbers of a table for the four codes in the lower halves of the bytes. */
static inline uint32_t ge_unpack_numbers(const uint8_t *table, uint32_t codes) {
    return table[codes & 15] | (uint32_t)table[codes >> 8 & 15] << 8 | (uint32_t)table[codes >> 16 & 15] << 16 |
           (uint32_t)table[codes >> 24 & 15] << 24;
}

#endif
