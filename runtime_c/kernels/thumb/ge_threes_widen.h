/* Makes the words of one group of channels (see the core's threes.h) in RAM, from weights that take a byte each in
 * flash.
 *
 * The bytes of a group lie input by input: first that of a channel with a word of its own, if there is one, then threes
 * w0, w1, w2. Group follows group without gaps. A table of words holds the values that sums begin with and the
 * requantization words, in the same order.
 */
#ifndef GE_THREES_WIDEN_H
#define GE_THREES_WIDEN_H

#include <stdint.h>
#include <string.h>

#include "ge_threes.h"

typedef struct {
    uint32_t *to;          /* 0 */
    const int8_t *from;    /* 4 */
    const int8_t *end;     /* 8 */
    uint32_t single;       /* 12: 1 if each input begins with a channel that has a word of its own */
    uint32_t threes;       /* 16: 1 if threes follow */
    uint32_t saved[4];     /* 20: r4-r7, kept here so that the compiler's figure for the stack is right */
    const uint32_t *table; /* start values and requantization words of the next group */
} ge_threes_widening;

/* clang-format off */

/* Makes one byte a word. */
#define GE_THREES_WIDEN_ONE \
    "ldrb r3, [r1]\n" \
    "sxtb r3, r3\n" \
    "stmia r0!, {r3}\n" \
    "adds r1, r1, #1\n"

/* Makes three bytes the words w0 + w2 * 2^21 and w1 + w2 * 2^10. */
#define GE_THREES_WIDEN_THREE \
    "ldrsb r5, [r1, r7]\n" \
    "ldrsb r4, [r1, r6]\n" \
    "ldrb r3, [r1]\n" \
    "sxtb r3, r3\n" \
    "lsls r5, r5, #10\n" \
    "adds r4, r4, r5\n" \
    "lsls r5, r5, #11\n" \
    "adds r3, r3, r5\n" \
    "stmia r0!, {r3, r4}\n" \
    "adds r1, r1, #3\n"

/* Makes the words of a multiple of eight inputs. r0 to, r1 from, r2 end, r6 = 1, r7 = 2, r12 the argument. */
__attribute__((naked, noinline)) static void ge_threes_widen(ge_threes_widening *s __attribute__((unused))) {
    __asm__ volatile(
        ".syntax unified\n"
        "mov r12, r0\n"
        "adds r0, r0, #20\n"
        "stmia r0!, {r4, r5, r6, r7}\n"
        "mov r0, r12\n"
        "ldmia r0!, {r3, r4, r5, r6, r7}\n"
        "movs r0, r3\n"
        "movs r1, r4\n"
        "movs r2, r5\n"
        "movs r3, r6\n"
        "movs r4, r7\n"
        "movs r6, #1\n"
        "movs r7, #2\n"
        "cmp r3, #0\n"
        "beq 1f\n"
        "cmp r4, #0\n"
        "beq 3f\n"
        "2:\n"
        GE_THREES_WIDEN_ONE
        GE_THREES_WIDEN_THREE
        GE_THREES_WIDEN_THREE
        "cmp r1, r2\n"
        "bne 2b\n"
        "b 4f\n"
        "3:\n"
        GE_THREES_WIDEN_ONE
        "cmp r1, r2\n"
        "bne 3b\n"
        "b 4f\n"
        "1:\n"
        GE_THREES_WIDEN_THREE
        GE_THREES_WIDEN_THREE
        GE_THREES_WIDEN_THREE
        GE_THREES_WIDEN_THREE
        "cmp r1, r2\n"
        "bne 1b\n"
        "4:\n"
        "mov r2, r12\n"
        "str r0, [r2]\n"
        "str r1, [r2, #4]\n"
        "adds r2, r2, #20\n"
        "ldmia r2!, {r4, r5, r6, r7}\n"
        "bx lr\n");
}

/* clang-format on */

/* Copies `count` words of the table. */
static inline void ge_threes_words(ge_threes_widening *s, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        *s->to++ = *s->table++;
    }
}

/* Makes the words of a group at s->to. words: for each input; chunks: the number of inputs in each chunk. */
static void ge_threes_group(ge_threes_widening *s, const ge_threes_block *block, const uint32_t *chunks,
                            int32_t words) {
    const int32_t channels = words / 2 * 3 + words % 2;
    s->single = (uint32_t)words & 1u;
    s->threes = words > 1;
    if (words == 1) {
        ge_threes_words(s, GE_THREES_STARTS);
        s->end = s->from + block->inputs;
        ge_threes_widen(s);
    }
    for (; words > 1 && *chunks > 0; chunks++) {
        ge_threes_words(s, GE_THREES_STARTS * words);
        s->end = s->from + channels * (int32_t)*chunks;
        ge_threes_widen(s);
    }
    ge_threes_words(s, GE_THREES_LAW * channels);
}

#endif
