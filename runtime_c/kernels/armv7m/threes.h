/* Three sums in two words by the MLA of Cortex-M3: the part of ge_threes.h that depends on the core.
 *
 * Channels c0, c1, c2 have two words for each input: A = w0 + w2 * 2^21 and B = w1 + w2 * 2^10, modulo 2^32. The sums
 * of x * A and x * B are S0 + S2 * 2^21 and S1 + S2 * 2^10, and |S0|, |S1| < 2^20 makes the three separable: 3 MACs
 * take 2 MLA. The sum of x * A begins with 2^20, so that its low 21 bits do not borrow from S2. Then s = A >> 21 is S2
 * modulo 2^11, B - s * 2^10 has S1 in its low 21 bits, and B - S1 is S2 * 2^10. The sums are not shifted down before
 * they are requantized: they are S0 * 2^11, S1 * 2^11 and S2 * 2^10. The 64-bit requantization words are scaled alike,
 * and SSAT shifts by as much more.
 */
#ifndef THREES_H
#define THREES_H

#include <stdint.h>
#include <string.h>

/* The state of one pixel. Groups of nine channels have six words for each input. A last group with fewer channels has
 * 6, 4 or 2 words (threes), or 5 or 1 (a channel with a word of its own, then threes). Comments of fields begin with
 * their offset. */
typedef struct {
    const int8_t *x;        /* 0: one byte before the chunk's inputs, less `odd` */
    uint32_t begin[6];      /* 4: the values that the words of sums begin with */
    int32_t odd;            /* 28: 8 if the chunk is an odd number of eights, else 0 */
    const int8_t *end;      /* 32: one before the end of the chunk; two before it if there are other chunks */
    const uint32_t *chunks; /* 36: the number of inputs in each of the next chunks, then 0 */
    int8_t *out;            /* 40 */
    const uint32_t *stream; /* 44: begins with the first group */
    const uint32_t *nines;  /* 48: where the groups of nine end */
    int32_t tail;           /* 52: words for each input of the last group, or 0 */
    int8_t *tail_out;       /* 56: where its outputs go */
    const int8_t *last;     /* 60: one before the end of the last chunk */
    struct {
        const int8_t *x;
        int32_t odd;
        const int8_t *end;
        const uint32_t *chunks;
    } first;           /* 64: `x`, `odd`, `end` and `chunks` of the first chunk */
    int32_t sums[9];   /* 80: sums over the chunks; 0 between groups */
    uint32_t saved[9]; /* 116: r4-r11, lr, kept here so that the compiler's figure for the stack is right */
    int32_t *from;     /* 152: the first of `sums` in use */
    int8_t spare[9];   /* outputs of a last group with fewer channels than sums */
    int32_t spared;    /* how many of them are needed; 0: the last group has as many channels as sums */
    int32_t before;    /* outputs before the last group */
    int32_t inputs;    /* in all chunks */
    int32_t length;    /* from the first input to `end` of the first chunk */
} ge_threes_block;

/* clang-format off */

#define GE_THREES_FOUR_WORDS "ldm r1!, {r9, r10, r11, r12}\n"

/* Two inputs, nine channels: 18 MACs in 17 instructions. next: address of the second input. */
#define GE_THREES_NINE_BY_TWO(first, next) \
    GE_THREES_FOUR_WORDS \
    "ldrsb r8, [r0, #" first "]\n" \
    "mla r2, r9, r8, r2\n" \
    "mla r3, r10, r8, r3\n" \
    "mla r4, r11, r8, r4\n" \
    "mla r5, r12, r8, r5\n" \
    GE_THREES_FOUR_WORDS \
    "mla r6, r9, r8, r6\n" \
    "mla r7, r10, r8, r7\n" \
    "ldrsb r8, " next "\n" \
    "mla r2, r11, r8, r2\n" \
    "mla r3, r12, r8, r3\n" \
    GE_THREES_FOUR_WORDS \
    "mla r4, r9, r8, r4\n" \
    "mla r5, r10, r8, r5\n" \
    "mla r6, r11, r8, r6\n" \
    "mla r7, r12, r8, r7\n"

/* Four inputs, seven channels, the first in r3: 28 MACs in 29 instructions. d: address of the last input. */
#define GE_THREES_SEVEN_BY_FOUR(a, b, c, d) \
    GE_THREES_FOUR_WORDS \
    "ldrsb r8, [r0, #" a "]\n" \
    "mla r3, r9, r8, r3\n" \
    "mla r4, r10, r8, r4\n" \
    "mla r5, r11, r8, r5\n" \
    "mla r6, r12, r8, r6\n" \
    GE_THREES_FOUR_WORDS \
    "mla r7, r9, r8, r7\n" \
    "ldrsb r8, [r0, #" b "]\n" \
    "mla r3, r10, r8, r3\n" \
    "mla r4, r11, r8, r4\n" \
    "mla r5, r12, r8, r5\n" \
    GE_THREES_FOUR_WORDS \
    "mla r6, r9, r8, r6\n" \
    "mla r7, r10, r8, r7\n" \
    "ldrsb r8, [r0, #" c "]\n" \
    "mla r3, r11, r8, r3\n" \
    "mla r4, r12, r8, r4\n" \
    GE_THREES_FOUR_WORDS \
    "mla r5, r9, r8, r5\n" \
    "mla r6, r10, r8, r6\n" \
    "mla r7, r11, r8, r7\n" \
    "ldrsb r8, " d "\n" \
    "mla r3, r12, r8, r3\n" \
    GE_THREES_FOUR_WORDS \
    "mla r4, r9, r8, r4\n" \
    "mla r5, r10, r8, r5\n" \
    "mla r6, r11, r8, r6\n" \
    "mla r7, r12, r8, r7\n"

/* An input, six channels: 6 MACs in 6 instructions. */
#define GE_THREES_SIX(at) \
    GE_THREES_FOUR_WORDS \
    "ldrsb r8, " at "\n" \
    "mla r4, r9, r8, r4\n" \
    "mla r5, r10, r8, r5\n" \
    "mla r6, r11, r8, r6\n" \
    "mla r7, r12, r8, r7\n"

/* Two inputs, three channels: 6 MACs in 7 instructions. */
#define GE_THREES_THREE_BY_TWO(first, second) \
    GE_THREES_FOUR_WORDS \
    "ldrsb r8, [r0, #" first "]\n" \
    "mla r6, r9, r8, r6\n" \
    "mla r7, r10, r8, r7\n" \
    "ldrsb r8, " second "\n" \
    "mla r6, r11, r8, r6\n" \
    "mla r7, r12, r8, r7\n"

/* Four inputs, one channel: 4 MACs in 9 instructions. */
#define GE_THREES_ONE_BY_FOUR(a, b, c, d) \
    GE_THREES_FOUR_WORDS \
    "ldrsb r8, [r0, #" a "]\n" \
    "mla r3, r9, r8, r3\n" \
    "ldrsb r8, [r0, #" b "]\n" \
    "mla r3, r10, r8, r3\n" \
    "ldrsb r8, [r0, #" c "]\n" \
    "mla r3, r11, r8, r3\n" \
    "ldrsb r8, " d "\n" \
    "mla r3, r12, r8, r3\n"

/* Turns the words a and b into sums: S0 * 2^11 + 2^31 in a, S1 * 2^11 in r8, S2 * 2^10 in b. */
#define GE_THREES_DECODE(a, b) \
    "lsr r8, " a ", #21\n" \
    "sub r9, " b ", r8, lsl #10\n" \
    "lsl " a ", " a ", #11\n" \
    "lsl r8, r9, #11\n" \
    "sub " b ", " b ", r8, asr #11\n"

/* Stores the output of a sum times 2^shift. product: "u" for a sum plus 2^31, else "s". */
#define GE_THREES_OUTPUT(product, low, high, multiplier, sum, shift) \
    product "mlal " low ", " high ", " sum ", " multiplier "\n" \
    "ssat " high ", #8, " high shift "\n" \
    "strb " high ", [r0], #1\n"

/* Stores the three outputs of two words; c and d are free. */
#define GE_THREES_OUTPUTS(a, b, c, d) \
    GE_THREES_DECODE(a, b) \
    "ldm r1!, {" c ", " d ", r9, r10, r11, r12}\n" \
    GE_THREES_OUTPUT("u", c, d, "r9", a, ", asr #11") \
    GE_THREES_OUTPUT("s", "r10", "r11", "r12", "r8", ", asr #11") \
    "ldm r1!, {r9, r10, r11}\n" \
    GE_THREES_OUTPUT("s", "r9", "r10", "r11", b, ", asr #10")

/* Adds the sums in words `a` and `b` to the next three sums at r12. */
#define GE_THREES_ADD(a, b) \
    "lsr r8, " a ", #21\n" \
    "sub r9, " b ", r8, lsl #10\n" \
    "sbfx r9, r9, #0, #21\n" \
    "sub r10, " b ", r9\n" \
    "ubfx r8, " a ", #0, #21\n" \
    "ldm r12, {" a ", " b ", r11}\n" \
    "add " a ", " a ", r8\n" \
    "add " b ", " b ", r9\n" \
    "add r11, r11, r10, asr #10\n" \
    "stm r12!, {" a ", " b ", r11}\n"

/* Computes all groups. r0 inputs or outputs, r1 stream, r2-r7 words of sums, r8 an input, r9-r12 four words, lr the
 * block. */
__attribute__((naked, noinline)) static void ge_threes_groups(ge_threes_block *block __attribute__((unused))) {
    __asm__ volatile(
        "add r12, r0, #116\n"
        "stm r12, {r4-r11, lr}\n"
        "mov lr, r0\n"
        "ldr r1, [lr, #44]\n"
        "b 10f\n"
        /* one group of nine */
        "1:\n"
        "ldm lr, {r0, r2-r8}\n"
        "cmp r8, #0\n"
        "bne 3f\n"
        "2:\n"
        GE_THREES_NINE_BY_TWO("1", "[r0, #2]")
        GE_THREES_NINE_BY_TWO("3", "[r0, #4]")
        GE_THREES_NINE_BY_TWO("5", "[r0, #6]")
        GE_THREES_NINE_BY_TWO("7", "[r0, #8]")
        "3:\n"
        GE_THREES_NINE_BY_TWO("9", "[r0, #10]")
        GE_THREES_NINE_BY_TWO("11", "[r0, #12]")
        GE_THREES_NINE_BY_TWO("13", "[r0, #14]")
        GE_THREES_NINE_BY_TWO("15", "[r0, #16]!")
        "ldr r8, [lr, #32]\n"
        "cmp r0, r8\n"
        "blo 2b\n"
        "bne 21f\n"
        /* outputs of a group with one chunk */
        "ldr r0, [lr, #40]\n"
        GE_THREES_DECODE("r2", "r3")
        "ldm r1!, {r9, r10, r11}\n"
        GE_THREES_OUTPUT("u", "r9", "r10", "r11", "r2", ", asr #11")
        "ldm r1!, {r9, r10, r11}\n"
        GE_THREES_OUTPUT("s", "r9", "r10", "r11", "r8", ", asr #11")
        "ldm r1!, {r9, r10, r11}\n"
        GE_THREES_OUTPUT("s", "r9", "r10", "r11", "r3", ", asr #10")
        "4:\n"
        GE_THREES_OUTPUTS("r4", "r5", "r2", "r3")
        "5:\n"
        GE_THREES_OUTPUTS("r6", "r7", "r2", "r3")
        "6:\n"
        "str r0, [lr, #40]\n"
        "10:\n"
        "ldr r8, [lr, #48]\n"
        "cmp r1, r8\n"
        "blo 1b\n"
        "bne 11f\n"
        /* the last group, if it has fewer than nine */
        "ldr r8, [lr, #56]\n"
        "str r8, [lr, #40]\n"
        "7:\n"
        "ldm lr, {r0, r2-r8}\n"
        "add r0, r0, r8\n"
        "ldr r8, [lr, #52]\n"
        "cmp r8, #4\n"
        "beq 15f\n"
        "blo 8f\n"
        "cmp r8, #5\n"
        "beq 14f\n"
        "b 1b\n"
        "8:\n"
        "cmp r8, #1\n"
        "beq 12f\n"
        "bhi 16f\n"
        "11:\n"
        "add r12, lr, #116\n"
        "ldm r12, {r4-r11, pc}\n"
        "12:\n"
        GE_THREES_ONE_BY_FOUR("1", "2", "3", "[r0, #4]")
        GE_THREES_ONE_BY_FOUR("5", "6", "7", "[r0, #8]!")
        "ldr r8, [lr, #60]\n"
        "cmp r0, r8\n"
        "blo 12b\n"
        "ldr r0, [lr, #40]\n"
        "ldm r1!, {r9, r10, r11}\n"
        GE_THREES_OUTPUT("s", "r9", "r10", "r11", "r3", "")
        "b 11b\n"
        "14:\n"
        GE_THREES_SEVEN_BY_FOUR("1", "2", "3", "[r0, #4]")
        GE_THREES_SEVEN_BY_FOUR("5", "6", "7", "[r0, #8]!")
        "ldr r8, [lr, #32]\n"
        "cmp r0, r8\n"
        "blo 14b\n"
        "ldr r0, [lr, #40]\n"
        "ldm r1!, {r9, r10, r11}\n"
        GE_THREES_OUTPUT("s", "r9", "r10", "r11", "r3", "")
        "b 4b\n"
        "15:\n"
        GE_THREES_SIX("[r0, #1]")
        GE_THREES_SIX("[r0, #2]")
        GE_THREES_SIX("[r0, #3]")
        GE_THREES_SIX("[r0, #4]")
        GE_THREES_SIX("[r0, #5]")
        GE_THREES_SIX("[r0, #6]")
        GE_THREES_SIX("[r0, #7]")
        GE_THREES_SIX("[r0, #8]!")
        "ldr r8, [lr, #32]\n"
        "cmp r0, r8\n"
        "blo 15b\n"
        "bne 22f\n"
        "ldr r0, [lr, #40]\n"
        "b 4b\n"
        "16:\n"
        GE_THREES_THREE_BY_TWO("1", "[r0, #2]")
        GE_THREES_THREE_BY_TWO("3", "[r0, #4]")
        GE_THREES_THREE_BY_TWO("5", "[r0, #6]")
        GE_THREES_THREE_BY_TWO("7", "[r0, #8]!")
        "ldr r8, [lr, #32]\n"
        "cmp r0, r8\n"
        "blo 16b\n"
        "bne 23f\n"
        "ldr r0, [lr, #40]\n"
        "b 5b\n"
        /* one chunk of a group */
        "21:\n"
        "add r12, lr, #80\n"
        "str r12, [lr, #152]\n"
        GE_THREES_ADD("r2", "r3")
        "24:\n"
        GE_THREES_ADD("r4", "r5")
        "25:\n"
        GE_THREES_ADD("r6", "r7")
        "ldr r8, [lr, #36]\n"
        "ldr r9, [r8], #4\n"
        "cmp r9, #0\n"
        "beq 26f\n"
        "add r10, r0, r9\n"
        "sub r10, r10, #1\n"
        "and r9, r9, #8\n"
        "sub r0, r0, r9\n"
        "str r0, [lr]\n"
        "strd r9, r10, [lr, #28]\n"
        "str r8, [lr, #36]\n"
        "ldr r8, [lr, #48]\n"
        "cmp r1, r8\n"
        "blo 1b\n"
        "b 7b\n"
        "22:\n"
        "add r12, lr, #92\n"
        "str r12, [lr, #152]\n"
        "b 24b\n"
        "23:\n"
        "add r12, lr, #104\n"
        "str r12, [lr, #152]\n"
        "b 25b\n"
        /* outputs of the sums over all chunks */
        "26:\n"
        "ldr r0, [lr, #40]\n"
        "ldr r2, [lr, #152]\n"
        "movs r3, #0\n"
        "27:\n"
        "ldr r4, [r2]\n"
        "ldm r1!, {r8, r9, r10}\n"
        GE_THREES_OUTPUT("s", "r8", "r9", "r10", "r4", "")
        "str r3, [r2], #4\n"
        "cmp r2, r12\n"
        "bne 27b\n"
        "add r8, lr, #64\n"
        "ldm r8, {r2, r3, r4, r5}\n"
        "str r2, [lr]\n"
        "add r8, lr, #28\n"
        "stm r8, {r3, r4, r5}\n"
        "b 6b\n");
}

/* clang-format on */

/* GE_THREES_STARTS: 0, because the stream holds no values that sums begin with; ge_threes_block has them.
 * GE_THREES_LAW: requantization words of an output, which are the 64 bits that the product is added to, and the
 * multiplier. */
#define GE_THREES_STARTS 0
#define GE_THREES_LAW 3

static inline void ge_threes_layer(ge_threes_block *block, const uint32_t *words, int32_t lo, int32_t hi) {
    (void)lo;
    (void)hi;
    for (int32_t i = 0; i < 6; i++) {
        block->begin[i] = i % 2 == 0 ? 1u << 20 : 0;
    }
    block->odd = block->first.odd = (int32_t)(words[0] & 8u);
    block->chunks = block->first.chunks = words + 1;
    block->length = (int32_t)words[0] - (words[1] == 0 ? 1 : 2);
}

static inline void ge_threes_inputs(ge_threes_block *block, const int8_t *x) {
    block->x = block->first.x = x - 1 - block->odd;
    block->end = block->first.end = x + block->length;
    block->last = x - 1 + block->inputs;
}

/* Clamps `count` outputs where an activation's limits are narrower than int8, to which SSAT has clamped. */
static inline void ge_threes_clamp(int32_t lo, int32_t hi, int8_t *out, int32_t count) {
    if (lo > INT8_MIN || hi < INT8_MAX) {
        for (int32_t i = 0; i < count; i++) {
            out[i] = (int8_t)(out[i] < lo ? lo : (out[i] > hi ? hi : out[i]));
        }
    }
}

/* Copies inputs unchanged. r0 to, r1 from, r2 count. LDR and STR need no alignment on this core. */
__attribute__((naked, noinline)) static void ge_threes_take(int8_t *to __attribute__((unused)),
                                                            const int8_t *from __attribute__((unused)),
                                                            int32_t count __attribute__((unused))) {
    __asm__ volatile("subs r2, r2, #16\n"
                     "blo 2f\n"
                     "1:\n"
                     "ldr r3, [r1], #4\n"
                     "ldr r12, [r1], #4\n"
                     "str r3, [r0], #4\n"
                     "str r12, [r0], #4\n"
                     "ldr r3, [r1], #4\n"
                     "ldr r12, [r1], #4\n"
                     "str r3, [r0], #4\n"
                     "str r12, [r0], #4\n"
                     "subs r2, r2, #16\n"
                     "bhs 1b\n"
                     "2:\n"
                     "lsls r2, r2, #29\n" /* carry: eight more; negative: four more */
                     "bcc 3f\n"
                     "ldr r3, [r1], #4\n"
                     "ldr r12, [r1], #4\n"
                     "str r3, [r0], #4\n"
                     "str r12, [r0], #4\n"
                     "3:\n"
                     "bpl 4f\n"
                     "ldr r3, [r1], #4\n"
                     "str r3, [r0], #4\n"
                     "4:\n"
                     "lsls r2, r2, #2\n" /* carry: two more; negative: one more */
                     "bcc 5f\n"
                     "ldrh r3, [r1], #2\n"
                     "strh r3, [r0], #2\n"
                     "5:\n"
                     "bpl 6f\n"
                     "ldrb r3, [r1]\n"
                     "strb r3, [r0]\n"
                     "6:\n"
                     "bx lr\n");
}

/* Copied inputs have these bits inverted. */
#define GE_THREES_FLIP 0u

/* Whether the sums can read inputs in place, without a copy. */
#define GE_THREES_IN_PLACE 1

#endif
