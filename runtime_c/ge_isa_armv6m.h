/* Three sums in two words with the MULS of ARMv6-M: what ge_threes.h needs of a core.
 *
 * Channels c0, c1, c2 give two words for each input: A = w0 + w2 * 2^21 and B = w1 + w2 * 2^10, modulo 2^32. Sums of x * A and
 * x * B, begun at values that keep S0, S1 in 0..2^21-1 and S2 in 0..2^22-1, hold all three: 3 MACs in 2 MULS and 2 ADD, and
 * nothing carries. Inputs are bytes from 0 on (x + 128), because LDRB has an immediate offset and LDRSB has none here.
 *
 * No product is longer than 32 bits: an output is ((a * Mh + ((a * Ml + R) >> 9)) >> 23) + lo where a, the distance of the
 * sum from the smallest one that does not saturate, is inside the range of those that do not. Nested floors are exact.
 */
#ifndef GE_ISA_ARMV6M_H
#define GE_ISA_ARMV6M_H

#include <stdint.h>
#include <string.h>

/* Inputs from `x` to `end`, a multiple of 8 of them, with the words of `stream`; both move on. */
typedef struct {
    const int8_t *x;        /* 0 */
    const uint32_t *stream; /* 4 */
    int32_t *sums;          /* 8: these grow */
    const int8_t *end;      /* 12 */
    uint32_t saved[9];      /* 16: r4-r11, lr; here, so that the compiler's figures of the stack are true */
} ge_threes_block;

/* clang-format off */

/* Adds the sums in `a` and `b` to the next three at r0. */
#define GE_THREES_DECODE(a, b) \
    "mov r6, " a "\n" \
    "mov r3, " b "\n" \
    "lsls r2, r6, #11\n" \
    "lsrs r2, r2, #11\n" \
    "lsrs r6, r6, #21\n" \
    "lsls r5, r6, #10\n" \
    "subs r5, r3, r5\n" \
    "lsls r3, r5, #11\n" \
    "lsrs r3, r3, #11\n" \
    "lsrs r5, r5, #21\n" \
    "lsls r5, r5, #11\n" \
    "adds r4, r6, r5\n" \
    "ldr r5, [r0]\n" \
    "adds r2, r2, r5\n" \
    "ldr r5, [r0, #4]\n" \
    "adds r3, r3, r5\n" \
    "ldr r5, [r0, #8]\n" \
    "adds r4, r4, r5\n" \
    "stmia r0!, {r2, r3, r4}\n"

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

/* Two inputs, three channels: 6 MACs in 11 instructions. */
#define GE_THREES_THREE_BY_TWO(first, second) \
    "ldmia r1!, {r3, r4, r5, r6}\n" \
    "ldrb r2, [r0, #" first "]\n" \
    GE_THREES_LOW("r8", "r9") \
    "ldrb r2, [r0, #" second "]\n" \
    GE_THREES_HIGH("r8", "r9")

#define GE_THREES_ENTER \
    "adds r0, r0, #16\n" \
    "stmia r0!, {r4-r7}\n" \
    "mov r4, r8\n" \
    "mov r5, r9\n" \
    "mov r6, r10\n" \
    "mov r7, r11\n" \
    "stmia r0!, {r4-r7}\n" \
    "mov r4, lr\n" \
    "str r4, [r0]\n" \
    "subs r0, r0, #48\n" \
    "mov r7, r0\n" \
    "ldr r0, [r7]\n" \
    "ldr r1, [r7, #4]\n"

#define GE_THREES_LEAVE \
    "adds r7, r7, #32\n" \
    "ldmia r7!, {r0-r3}\n" \
    "mov r8, r0\n" \
    "mov r9, r1\n" \
    "mov r10, r2\n" \
    "mov r11, r3\n" \
    "ldr r0, [r7]\n" \
    "subs r7, r7, #32\n" \
    "ldmia r7, {r4-r7}\n" \
    "bx r0\n"

#define GE_THREES_LOOP \
    "ldr r3, [r7, #12]\n" \
    "adds r0, r0, #8\n" \
    "cmp r0, r3\n" \
    "bne 1b\n" \
    "str r0, [r7]\n" \
    "str r1, [r7, #4]\n" \
    "ldr r0, [r7, #8]\n"

/* Nine channels. r0 inputs, r1 words, r2 an input, r3-r6 four words, r7 the block, r8-r12 and lr sums. */
__attribute__((naked, noinline)) static void ge_threes_nine(ge_threes_block *block __attribute__((unused))) {
    __asm__ volatile(
        ".syntax unified\n"
        GE_THREES_ENTER
        "ldmia r1!, {r3, r4, r5, r6}\n"
        "mov r8, r3\n"
        "mov r9, r4\n"
        "mov r10, r5\n"
        "mov r11, r6\n"
        "ldmia r1!, {r3, r4}\n"
        "mov r12, r3\n"
        "mov lr, r4\n"
        "1:\n"
        GE_THREES_NINE_BY_TWO("0", "1")
        GE_THREES_NINE_BY_TWO("2", "3")
        GE_THREES_NINE_BY_TWO("4", "5")
        GE_THREES_NINE_BY_TWO("6", "7")
        GE_THREES_LOOP
        GE_THREES_DECODE("r8", "r9")
        GE_THREES_DECODE("r10", "r11")
        GE_THREES_DECODE("r12", "lr")
        GE_THREES_LEAVE);
}

/* Three channels, with the same registers. */
__attribute__((naked, noinline)) static void ge_threes_three(ge_threes_block *block __attribute__((unused))) {
    __asm__ volatile(
        ".syntax unified\n"
        GE_THREES_ENTER
        "ldmia r1!, {r3, r4}\n"
        "mov r8, r3\n"
        "mov r9, r4\n"
        "1:\n"
        GE_THREES_THREE_BY_TWO("0", "1")
        GE_THREES_THREE_BY_TWO("2", "3")
        GE_THREES_THREE_BY_TWO("4", "5")
        GE_THREES_THREE_BY_TWO("6", "7")
        GE_THREES_LOOP
        GE_THREES_DECODE("r8", "r9")
        GE_THREES_LEAVE);
}

/* clang-format on */

/* Words of the law of a channel: the sum of the lowest output, sums above it that do not saturate, Ml, Mh, R. */
#define GE_THREES_LAW 5

typedef struct {
    int32_t lo;
    uint32_t span; /* highest minus lowest output */
} ge_threes_range;

static inline ge_threes_range ge_threes_range_of(int32_t zero_point, int32_t lo, int32_t hi) {
    const ge_threes_range range = {lo, (uint32_t)(hi - lo)};
    (void)zero_point;
    return range;
}

/* What sums begin with: nothing, the law of a channel has it all. */
static inline void ge_threes_begin(const int32_t *law, int32_t size, int32_t *sums) {
    (void)law;
    for (int32_t i = 0; i < size; i += 3) {
        __asm__ volatile(".syntax unified\n"
                         "movs r2, #0\n"
                         "movs r3, #0\n"
                         "movs r4, #0\n"
                         "stmia %[sums]!, {r2, r3, r4}\n"
                         : [sums] "+&l"(sums)
                         :
                         : "r2", "r3", "r4", "cc", "memory");
    }
}

typedef struct {
    const int32_t *sums; /* 0 */
    const int32_t *law;  /* 4 */
    int8_t *out;         /* 8 */
    const int32_t *end;  /* 12: of the sums */
    uint32_t limits;     /* 16: lo as a byte, span * 256 */
    uint32_t saved[5];   /* 20: r4-r7, lr */
} ge_threes_outputs;

/* The outputs of all sums. r0 sums, r1 law, r2 out, r3-r6, r7 end, r12 limits, lr the struct. A function of its own: with
 * -Os gcc takes high registers for nothing, and there are too few low ones. */
__attribute__((naked, noinline)) static void ge_threes_requantize(ge_threes_outputs *o __attribute__((unused))) {
    __asm__ volatile(".syntax unified\n"
                     "adds r0, r0, #20\n"
                     "stmia r0!, {r4-r7}\n"
                     "mov r4, lr\n"
                     "str r4, [r0]\n"
                     "subs r0, r0, #36\n"
                     "mov lr, r0\n"
                     "ldr r7, [r0, #12]\n"
                     "ldr r3, [r0, #16]\n"
                     "mov r12, r3\n"
                     "ldr r2, [r0, #8]\n"
                     "ldr r1, [r0, #4]\n"
                     "ldr r0, [r0]\n"
                     "1:\n"
                     "ldmia r0!, {r3}\n"
                     "ldmia r1!, {r4, r5}\n"
                     "subs r3, r3, r4\n"
                     "cmp r3, r5\n"
                     "bhi 3f\n"
                     "ldmia r1!, {r4, r5, r6}\n"
                     "muls r4, r3, r4\n"
                     "adds r4, r4, r6\n"
                     "lsrs r4, r4, #9\n"
                     "muls r5, r3, r5\n"
                     "adds r4, r4, r5\n"
                     "lsrs r4, r4, #23\n"
                     "2:\n"
                     "add r4, r12\n" /* only the lowest byte is stored */
                     "strb r4, [r2]\n"
                     "adds r2, r2, #1\n"
                     "cmp r0, r7\n"
                     "bne 1b\n"
                     "mov r0, lr\n"
                     "ldr r3, [r0, #36]\n"
                     "adds r0, r0, #20\n"
                     "ldmia r0!, {r4-r7}\n"
                     "bx r3\n"
                     "3:\n" /* below the lowest output, or above the highest */
                     "adds r1, r1, #12\n"
                     "asrs r3, r3, #31\n"
                     "mov r4, r12\n"
                     "lsrs r4, r4, #8\n"
                     "bics r4, r4, r3\n"
                     "b 2b\n");
}

/* `count` outputs from the sums of a nine or three of `size` channels. */
static inline void ge_threes_finish(const ge_threes_range *range, const int32_t *law, int32_t size, const int32_t *sums,
                                    int32_t count, int8_t *out) {
    ge_threes_outputs o;
    (void)size;
    o.sums = sums;
    o.law = law;
    o.out = out;
    o.end = sums + count;
    o.limits = ((uint32_t)range->lo & 0xFFu) | range->span << 8;
    ge_threes_requantize(&o);
}

/* Inputs as the sums want them: x + 128. Words where both addresses allow it. */
static inline void ge_threes_take(int8_t *to, const int8_t *from, int32_t count) {
    if ((((uintptr_t)to | (uintptr_t)from) & 3u) == 0) {
        uint32_t *t = (uint32_t *)(void *)to;
        const uint32_t *f = (const uint32_t *)(const void *)from;
        for (; count >= 4; count -= 4) {
            *t++ = *f++ ^ 0x80808080u;
        }
        to = (int8_t *)t;
        from = (const int8_t *)f;
    }
    for (; count > 0; count--) {
        *to++ = (int8_t)(uint8_t)((uint8_t)*from++ ^ 0x80u);
    }
}

static inline void ge_threes_fill(int8_t *to, int32_t value, int32_t count) {
    for (; count > 0; count--) {
        *to++ = (int8_t)(uint8_t)((uint32_t)value ^ 0x80u);
    }
}

/* Whether inputs can be read where they are. */
#define GE_THREES_IN_PLACE 0

#endif
