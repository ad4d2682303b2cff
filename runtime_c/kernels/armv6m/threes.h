/* Three sums in two words by the MULS of ARMv6-M: the part of ge_threes.h that depends on the core.
 *
 * Channels c0, c1, c2 have two words for each input: A = w0 + w2 * 2^21 and B = w1 + w2 * 2^10, modulo 2^32. The sums
 * of x * A and x * B hold all three sums S0, S1 and S2. They begin with values that keep S0 and S1 in 0..2^21-1 and S2
 * in 0..2^22-1, so nothing carries: 3 MACs take 2 MULS and 2 ADD. Inputs are unsigned bytes (x + 128), because LDRB has
 * an immediate offset and LDRSB has none.
 *
 * No product is longer than 32 bits: an output is ((a * Mh + ((a * Ml + R) >> 9)) >> 23) + lo, where a is the distance
 * of the sum from the smallest one that does not saturate; sums that saturate take another path. Nested floors are
 * exact.
 */
#ifndef THREES_H
#define THREES_H

#include <stdint.h>
#include <string.h>

#include "ge_armv6m.h"

/* The state of one pixel. Groups of nine channels have six words for each input. A last group with fewer channels has
 * 6, 4 or 2 words (threes), or 5 or 1 (a channel with a word of its own, then threes). Comments of fields begin with
 * their offset. */
typedef struct {
    const int8_t *x;        /* 0 */
    const int8_t *end;      /* 4: end of the chunk; one before it if there are other chunks */
    const uint32_t *chunks; /* 8: the number of inputs in each of the next chunks, then 0 */
    int8_t *out;            /* 12 */
    const uint32_t *stream; /* 16: begins with the first group */
    const uint32_t *nines;  /* 20: where the groups of nine end */
    int32_t tail;           /* 24: words for each input of the last group, or 0 */
    int8_t *tail_out;       /* 28: where its outputs go */
    int32_t *from;          /* 32: the first of `sums` in use */
    int32_t lo;             /* 36 */
    uint32_t span;          /* 40: hi - lo */
    const int8_t *at;       /* 44: where the next chunk begins */
    struct {
        const int8_t *end;
        const uint32_t *chunks;
    } first;            /* 48: `end` and `chunks` of the first chunk */
    int32_t sums[9];    /* 56: sums over the chunks; 0 between groups */
    const int8_t *last; /* 92: end of the last chunk */
    uint32_t saved[9];  /* 96: r4-r11, lr, kept here so that the compiler's figure for the stack is right */
    int8_t spare[9];    /* outputs of a last group with fewer channels than sums */
    int32_t spared;     /* how many of them are needed; 0: the last group has as many channels as sums */
    int32_t before;     /* outputs before the last group */
    int32_t inputs;     /* in all chunks */
    int32_t length;     /* inputs of the first chunk, less one if there are others */
} ge_threes_block;

/* clang-format off */

/* Multiplies the words in r3 and r4 with the input and adds the products to `a` and `b`. */
#define GE_THREES_LOW(a, b) \
    "muls r3, r2, r3\n" \
    "add " a ", r3\n" \
    "muls r4, r2, r4\n" \
    "add " b ", r4\n"

#define GE_THREES_HIGH(a, b) \
    "muls r5, r2, r5\n" \
    "add " a ", r5\n" \
    "muls r6, r2, r6\n" \
    "add " b ", r6\n"

/* Two inputs, nine channels: 18 MACs in 29 instructions. */
#define GE_THREES_NINE_BY_TWO(first, second) \
    "ldmia r1!, {r3, r4, r5, r6}\n" \
    "ldrb r2, [r0, #" first "]\n" \
    GE_THREES_LOW("r8", "r9") \
    GE_THREES_HIGH("r10", "r11") \
    "ldmia r1!, {r3, r4, r5, r6}\n" \
    GE_THREES_LOW("r12", "lr") \
    "ldrb r2, [r0, #" second "]\n" \
    GE_THREES_HIGH("r8", "r9") \
    "ldmia r1!, {r3, r4, r5, r6}\n" \
    GE_THREES_LOW("r10", "r11") \
    GE_THREES_HIGH("r12", "lr")

/* Four inputs, seven channels, the first in r8: 28 MACs in 49 instructions. */
#define GE_THREES_SEVEN_BY_FOUR(a, b, c, d) \
    "ldmia r1!, {r3, r4, r5, r6}\n" \
    "ldrb r2, [r0, #" a "]\n" \
    GE_THREES_LOW("r8", "r10") \
    GE_THREES_HIGH("r11", "r12") \
    "ldmia r1!, {r3, r4, r5, r6}\n" \
    "muls r3, r2, r3\n" \
    "add lr, r3\n" \
    "ldrb r2, [r0, #" b "]\n" \
    "muls r4, r2, r4\n" \
    "add r8, r4\n" \
    GE_THREES_HIGH("r10", "r11") \
    "ldmia r1!, {r3, r4, r5, r6}\n" \
    GE_THREES_LOW("r12", "lr") \
    "ldrb r2, [r0, #" c "]\n" \
    GE_THREES_HIGH("r8", "r10") \
    "ldmia r1!, {r3, r4, r5, r6}\n" \
    GE_THREES_LOW("r11", "r12") \
    "muls r5, r2, r5\n" \
    "add lr, r5\n" \
    "ldrb r2, [r0, #" d "]\n" \
    "muls r6, r2, r6\n" \
    "add r8, r6\n" \
    "ldmia r1!, {r3, r4, r5, r6}\n" \
    GE_THREES_LOW("r10", "r11") \
    GE_THREES_HIGH("r12", "lr")

/* An input, six channels: 6 MACs in 10 instructions. */
#define GE_THREES_SIX(at) \
    "ldmia r1!, {r3, r4, r5, r6}\n" \
    "ldrb r2, [r0, #" at "]\n" \
    GE_THREES_LOW("r10", "r11") \
    GE_THREES_HIGH("r12", "lr")

/* Two inputs, three channels: 6 MACs in 11 instructions. */
#define GE_THREES_THREE_BY_TWO(first, second) \
    "ldmia r1!, {r3, r4, r5, r6}\n" \
    "ldrb r2, [r0, #" first "]\n" \
    GE_THREES_LOW("r12", "lr") \
    "ldrb r2, [r0, #" second "]\n" \
    GE_THREES_HIGH("r12", "lr")

/* Four inputs, one channel: 4 MACs in 13 instructions. */
#define GE_THREES_ONE_BY_FOUR(a, b, c, d) \
    "ldmia r1!, {r3, r4, r5, r6}\n" \
    "ldrb r2, [r0, #" a "]\n" \
    "muls r3, r2, r3\n" \
    "add r8, r3\n" \
    "ldrb r2, [r0, #" b "]\n" \
    "muls r4, r2, r4\n" \
    "add r8, r4\n" \
    "ldrb r2, [r0, #" c "]\n" \
    "muls r5, r2, r5\n" \
    "add r8, r5\n" \
    "ldrb r2, [r0, #" d "]\n" \
    "muls r6, r2, r6\n" \
    "add r8, r6\n"

/* Counts eight inputs; sets the flags. */
#define GE_THREES_EIGHT_DONE \
    "ldr r3, [r7, #4]\n" \
    "adds r0, r0, #8\n" \
    "cmp r0, r3\n"

/* Stores the output of the sum in r3 at r0 + `at`. r2 is the lowest output. A sum that saturates branches to `outside`,
 * which returns to label `outside`2. */
#define GE_THREES_OUTPUT(at, outside) \
    "ldmia r1!, {r4, r5}\n" \
    "subs r3, r3, r4\n" \
    "cmp r3, r5\n" \
    "bhi " outside "f\n" \
    "ldmia r1!, {r4, r5, r6}\n" \
    "muls r4, r3, r4\n" \
    "adds r4, r4, r6\n" \
    "lsrs r4, r4, #9\n" \
    "muls r5, r3, r5\n" \
    "adds r4, r4, r5\n" \
    "lsrs r4, r4, #23\n" \
    outside "2:\n" \
    "adds r4, r4, r2\n" \
    "strb r4, [r0, #" at "]\n"

/* Where a sum saturates: sets the distance of the output from the lowest one, 0 or hi - lo. */
#define GE_THREES_OUTSIDE(outside) \
    outside ":\n" \
    "adds r1, r1, #12\n" \
    "asrs r3, r3, #31\n" \
    "ldr r4, [r7, #40]\n" \
    "bics r4, r4, r3\n" \
    "b " outside "2b\n"

/* Stores the three outputs of two words. */
#define GE_THREES_OUTPUTS(a, b, first, second, third, x, y, z) \
    "mov r3, " a "\n" \
    "lsls r3, r3, #11\n" \
    "lsrs r3, r3, #11\n" \
    GE_THREES_OUTPUT(first, x) \
    "mov r3, " a "\n" \
    "lsrs r3, r3, #21\n" \
    "lsls r3, r3, #10\n" \
    "mov r4, " b "\n" \
    "subs r3, r4, r3\n" \
    "lsls r3, r3, #11\n" \
    "lsrs r3, r3, #11\n" \
    "subs r4, r4, r3\n" \
    "mov " b ", r4\n" \
    GE_THREES_OUTPUT(second, y) \
    "mov r3, " b "\n" \
    "lsrs r3, r3, #10\n" \
    GE_THREES_OUTPUT(third, z)

/* Computes all groups. r0 inputs or outputs, r1 stream, r2 an input or the lowest output, r3-r6 four words, r7 the
 * block, r8-r12 and lr words of sums. */
__attribute__((naked, noinline)) static void ge_threes_groups(ge_threes_block *block __attribute__((unused))) {
    __asm__ volatile(
        ".syntax unified\n"
        "adds r0, r0, #96\n"
        GE_ARMV6M_SAVE("r0")
        "subs r0, r0, #128\n"
        "mov r7, r0\n"
        "ldr r1, [r7, #16]\n"
        "b 10f\n"
        /* one group of nine */
        "1:\n"
        "ldr r0, [r7]\n"
        "3:\n"
        "ldmia r1!, {r3, r4, r5, r6}\n"
        "mov r8, r3\n"
        "mov r9, r4\n"
        "mov r10, r5\n"
        "mov r11, r6\n"
        "ldmia r1!, {r3, r4}\n"
        "mov r12, r3\n"
        "mov lr, r4\n"
        "2:\n"
        GE_THREES_NINE_BY_TWO("0", "1")
        GE_THREES_NINE_BY_TWO("2", "3")
        GE_THREES_NINE_BY_TWO("4", "5")
        GE_THREES_NINE_BY_TWO("6", "7")
        GE_THREES_EIGHT_DONE
        "blo 2b\n"
        "beq 8f\n"
        "b 21f\n"
        "8:\n"
        "ldr r0, [r7, #12]\n"
        "ldr r2, [r7, #36]\n"
        GE_THREES_OUTPUTS("r8", "r9", "0", "1", "2", "31", "32", "33")
        "4:\n"
        GE_THREES_OUTPUTS("r10", "r11", "3", "4", "5", "34", "35", "36")
        "b 5f\n"
        GE_THREES_OUTSIDE("31")
        GE_THREES_OUTSIDE("32")
        GE_THREES_OUTSIDE("33")
        GE_THREES_OUTSIDE("34")
        GE_THREES_OUTSIDE("35")
        GE_THREES_OUTSIDE("36")
        "5:\n"
        GE_THREES_OUTPUTS("r12", "lr", "6", "7", "8", "37", "38", "39")
        "adds r0, r0, #9\n"
        "6:\n"
        "str r0, [r7, #12]\n"
        "10:\n"
        "ldr r3, [r7, #20]\n"
        "cmp r1, r3\n"
        "beq 9f\n"
        "bhi 11f\n"
        "b 1b\n"
        /* the last group, if it has fewer than nine */
        "9:\n"
        "ldr r3, [r7, #28]\n"
        "str r3, [r7, #12]\n"
        "ldr r0, [r7]\n"
        "7:\n"
        "ldr r3, [r7, #24]\n"
        "cmp r3, #1\n"
        "beq 12f\n"
        "blo 11f\n"
        "subs r3, r3, #4\n"
        "beq 15f\n"
        "blo 16f\n"
        "cmp r3, #1\n"
        "beq 14f\n"
        "b 3b\n"
        "14:\n"
        "b 17f\n"
        "15:\n"
        "b 18f\n"
        "16:\n"
        "b 19f\n"
        GE_THREES_OUTSIDE("37")
        GE_THREES_OUTSIDE("38")
        GE_THREES_OUTSIDE("39")
        "11:\n"
        "adds r7, r7, #112\n"
        GE_ARMV6M_RETURN
        "12:\n"
        "ldmia r1!, {r3}\n"
        "mov r8, r3\n"
        "13:\n"
        GE_THREES_ONE_BY_FOUR("0", "1", "2", "3")
        GE_THREES_ONE_BY_FOUR("4", "5", "6", "7")
        "ldr r3, [r7, #92]\n"
        "adds r0, r0, #8\n"
        "cmp r0, r3\n"
        "blo 13b\n"
        "mov r3, r8\n"
        "ldr r0, [r7, #12]\n"
        "ldr r2, [r7, #36]\n"
        GE_THREES_OUTPUT("0", "40")
        "b 11b\n"
        GE_THREES_OUTSIDE("40")
        "17:\n"
        "ldmia r1!, {r3, r4, r5, r6}\n"
        "mov r8, r3\n"
        "mov r10, r4\n"
        "mov r11, r5\n"
        "mov r12, r6\n"
        "ldmia r1!, {r3}\n"
        "mov lr, r3\n"
        "14:\n"
        GE_THREES_SEVEN_BY_FOUR("0", "1", "2", "3")
        GE_THREES_SEVEN_BY_FOUR("4", "5", "6", "7")
        GE_THREES_EIGHT_DONE
        "blo 14b\n"
        "ldr r0, [r7, #12]\n"
        "ldr r2, [r7, #36]\n"
        "mov r3, r8\n"
        GE_THREES_OUTPUT("0", "42")
        "subs r0, r0, #2\n"
        "b 4b\n"
        GE_THREES_OUTSIDE("42")
        "18:\n"
        "ldmia r1!, {r3, r4, r5, r6}\n"
        "mov r10, r3\n"
        "mov r11, r4\n"
        "mov r12, r5\n"
        "mov lr, r6\n"
        "15:\n"
        GE_THREES_SIX("0")
        GE_THREES_SIX("1")
        GE_THREES_SIX("2")
        GE_THREES_SIX("3")
        GE_THREES_SIX("4")
        GE_THREES_SIX("5")
        GE_THREES_SIX("6")
        GE_THREES_SIX("7")
        GE_THREES_EIGHT_DONE
        "blo 15b\n"
        "bne 22f\n"
        "ldr r0, [r7, #12]\n"
        "ldr r2, [r7, #36]\n"
        "subs r0, r0, #3\n"
        "b 4b\n"
        "19:\n"
        "ldmia r1!, {r3, r4}\n"
        "mov r12, r3\n"
        "mov lr, r4\n"
        "16:\n"
        GE_THREES_THREE_BY_TWO("0", "1")
        GE_THREES_THREE_BY_TWO("2", "3")
        GE_THREES_THREE_BY_TWO("4", "5")
        GE_THREES_THREE_BY_TWO("6", "7")
        GE_THREES_EIGHT_DONE
        "blo 16b\n"
        "bne 23f\n"
        "ldr r0, [r7, #12]\n"
        "ldr r2, [r7, #36]\n"
        "subs r0, r0, #6\n"
        "b 5b\n"
        /* one chunk of a group */
        "22:\n"
        "str r0, [r7, #44]\n"
        "movs r0, r7\n"
        "adds r0, r0, #68\n"
        "str r0, [r7, #32]\n"
        "b 24f\n"
        "23:\n"
        "str r0, [r7, #44]\n"
        "movs r0, r7\n"
        "adds r0, r0, #80\n"
        "str r0, [r7, #32]\n"
        "b 25f\n"
        "21:\n"
        "str r0, [r7, #44]\n"
        "movs r0, r7\n"
        "adds r0, r0, #56\n"
        "str r0, [r7, #32]\n"
        GE_ARMV6M_ADD_THREE("r8", "r9")
        "24:\n"
        GE_ARMV6M_ADD_THREE("r10", "r11")
        "25:\n"
        GE_ARMV6M_ADD_THREE("r12", "lr")
        "ldr r3, [r7, #8]\n"
        "ldmia r3!, {r4}\n"
        "cmp r4, #0\n"
        "beq 26f\n"
        "str r3, [r7, #8]\n"
        "ldr r0, [r7, #44]\n"
        "adds r4, r0, r4\n"
        "subs r4, r4, #1\n"
        "str r4, [r7, #4]\n"
        "ldr r3, [r7, #20]\n"
        "cmp r1, r3\n"
        "blo 20f\n"
        "b 7b\n"
        "20:\n"
        "b 3b\n"
        /* outputs of the sums over all chunks */
        "26:\n"
        "ldr r0, [r7, #32]\n"
        "ldr r2, [r7, #12]\n"
        "27:\n"
        "ldr r3, [r0]\n"
        "movs r4, #0\n"
        "stmia r0!, {r4}\n"
        "ldmia r1!, {r4, r5}\n"
        "subs r3, r3, r4\n"
        "cmp r3, r5\n"
        "bhi 43f\n"
        "ldmia r1!, {r4, r5, r6}\n"
        "muls r4, r3, r4\n"
        "adds r4, r4, r6\n"
        "lsrs r4, r4, #9\n"
        "muls r5, r3, r5\n"
        "adds r4, r4, r5\n"
        "lsrs r4, r4, #23\n"
        "432:\n"
        "ldr r5, [r7, #36]\n"
        "adds r4, r4, r5\n"
        "strb r4, [r2]\n"
        "adds r2, r2, #1\n"
        "movs r4, r7\n"
        "adds r4, r4, #92\n"
        "cmp r0, r4\n"
        "bne 27b\n"
        "movs r0, r2\n"
        "ldr r3, [r7, #48]\n"
        "ldr r4, [r7, #52]\n"
        "str r3, [r7, #4]\n"
        "str r4, [r7, #8]\n"
        "b 6b\n"
        GE_THREES_OUTSIDE("43"));
}

/* clang-format on */

/* GE_THREES_STARTS: 1, because each chunk of the stream begins with the values that the words of sums begin with.
 * GE_THREES_LAW: requantization words of an output, which are the sum of the lowest output, the largest distance from
 * it that does not saturate, Ml, Mh, R. */
#define GE_THREES_STARTS 1
#define GE_THREES_LAW 5

static inline void ge_threes_layer(ge_threes_block *block, const uint32_t *words, int32_t lo, int32_t hi) {
    block->lo = lo;
    block->span = (uint32_t)(hi - lo);
    block->chunks = block->first.chunks = words + 1;
    block->length = (int32_t)words[0] - (words[1] == 0 ? 0 : 1);
}

static inline void ge_threes_inputs(ge_threes_block *block, const int8_t *x) {
    block->x = x;
    block->end = block->first.end = x + block->length;
    block->last = x + block->inputs;
}

/* Nothing is left to do: GE_THREES_OUTPUT has clamped. */
static inline void ge_threes_clamp(int32_t lo, int32_t hi, const int8_t *out, int32_t count) {
    (void)lo;
    (void)hi;
    (void)out;
    (void)count;
}

/* Copies inputs as unsigned bytes, x + 128; in words if both addresses are aligned. r0 to, r1 from, r2 count, r12 the
 * saved r4. */
__attribute__((naked, noinline)) static void ge_threes_take(int8_t *to __attribute__((unused)),
                                                            const int8_t *from __attribute__((unused)),
                                                            int32_t count __attribute__((unused))) {
    __asm__ volatile(".syntax unified\n"
                     "movs r3, r0\n"
                     "orrs r3, r3, r1\n"
                     "lsls r3, r3, #30\n"
                     "bne 4f\n"
                     "mov r12, r4\n"
                     "movs r4, #0x80\n"
                     "lsls r3, r4, #8\n"
                     "orrs r4, r4, r3\n"
                     "lsls r3, r4, #16\n"
                     "orrs r4, r4, r3\n"
                     "subs r2, r2, #16\n"
                     "blo 2f\n"
                     "1:\n"
                     "ldr r3, [r1]\n"
                     "eors r3, r3, r4\n"
                     "str r3, [r0]\n"
                     "ldr r3, [r1, #4]\n"
                     "eors r3, r3, r4\n"
                     "str r3, [r0, #4]\n"
                     "ldr r3, [r1, #8]\n"
                     "eors r3, r3, r4\n"
                     "str r3, [r0, #8]\n"
                     "ldr r3, [r1, #12]\n"
                     "eors r3, r3, r4\n"
                     "str r3, [r0, #12]\n"
                     "adds r0, r0, #16\n"
                     "adds r1, r1, #16\n"
                     "subs r2, r2, #16\n"
                     "bhs 1b\n"
                     "2:\n"
                     "adds r2, r2, #12\n"
                     "bmi 6f\n"
                     "3:\n"
                     "ldmia r1!, {r3}\n"
                     "eors r3, r3, r4\n"
                     "stmia r0!, {r3}\n"
                     "subs r2, r2, #4\n"
                     "bhs 3b\n"
                     "6:\n"
                     "mov r4, r12\n"
                     "b 7f\n"
                     "4:\n"
                     "subs r2, r2, #4\n"
                     "blo 7f\n"
                     "5:\n"
                     "ldrb r3, [r1]\n"
                     "adds r3, r3, #128\n" /* only the lowest byte is stored */
                     "strb r3, [r0]\n"
                     "ldrb r3, [r1, #1]\n"
                     "adds r3, r3, #128\n"
                     "strb r3, [r0, #1]\n"
                     "ldrb r3, [r1, #2]\n"
                     "adds r3, r3, #128\n"
                     "strb r3, [r0, #2]\n"
                     "ldrb r3, [r1, #3]\n"
                     "adds r3, r3, #128\n"
                     "strb r3, [r0, #3]\n"
                     "adds r0, r0, #4\n"
                     "adds r1, r1, #4\n"
                     "subs r2, r2, #4\n"
                     "bhs 5b\n"
                     "7:\n"
                     "adds r2, r2, #4\n"
                     "beq 9f\n"
                     "8:\n"
                     "ldrb r3, [r1]\n"
                     "adds r3, r3, #128\n"
                     "strb r3, [r0]\n"
                     "adds r0, r0, #1\n"
                     "adds r1, r1, #1\n"
                     "subs r2, r2, #1\n"
                     "bne 8b\n"
                     "9:\n"
                     "bx lr\n");
}

/* Copied inputs have these bits inverted. */
#define GE_THREES_FLIP 0x80u

/* Whether the sums can read inputs in place, without a copy. */
#define GE_THREES_IN_PLACE 0

#endif
