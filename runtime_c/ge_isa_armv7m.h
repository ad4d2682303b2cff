/* Three sums in two words with the MLA of Cortex-M3: what ge_threes.h needs of a core.
 *
 * Channels c0, c1, c2 give two words for each input: A = w0 + w2 * 2^21 and B = w1 + w2 * 2^10, modulo 2^32. Sums of x * A and
 * x * B are S0 + S2 * 2^21 and S1 + S2 * 2^10, and |S0|, |S1| < 2^20 makes the three separable: 3 MACs in 2 MLA.
 */
#ifndef GE_ISA_ARMV7M_H
#define GE_ISA_ARMV7M_H

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

/* Adds the sums in `a` and `b` to the next three at r1. */
#define GE_THREES_DECODE(a, b) \
    "sbfx r8, " a ", #0, #21\n" \
    "sub " a ", " a ", r8\n" \
    "sub " b ", " b ", " a ", asr #11\n" \
    "sbfx r9, " b ", #0, #21\n" \
    "sub " b ", " b ", r9\n" \
    "asr " a ", " a ", #21\n" \
    "add r10, " a ", " b ", asr #10\n" \
    "ldm r1, {r0, r11, r12}\n" \
    "add r8, r8, r0\n" \
    "add r9, r9, r11\n" \
    "add r10, r10, r12\n" \
    "stm r1!, {r8, r9, r10}\n"

/* Two inputs, nine channels: 18 MACs in 17 instructions. */
#define GE_THREES_NINE_BY_TWO(first, second) \
    "ldm r1!, {r9, r10, r11, r12}\n" \
    "ldrsb r8, [r0, #" first "]\n" \
    "mla r2, r9, r8, r2\n" \
    "mla r3, r10, r8, r3\n" \
    "mla r4, r11, r8, r4\n" \
    "mla r5, r12, r8, r5\n" \
    "ldm r1!, {r9, r10, r11, r12}\n" \
    "mla r6, r9, r8, r6\n" \
    "mla r7, r10, r8, r7\n" \
    "ldrsb r8, [r0, #" second "]\n" \
    "mla r2, r11, r8, r2\n" \
    "mla r3, r12, r8, r3\n" \
    "ldm r1!, {r9, r10, r11, r12}\n" \
    "mla r4, r9, r8, r4\n" \
    "mla r5, r10, r8, r5\n" \
    "mla r6, r11, r8, r6\n" \
    "mla r7, r12, r8, r7\n"

/* Nine channels. r0 inputs, r1 words, r2-r7 sums, r8 an input, r9-r12 four words, lr the block. */
__attribute__((naked, noinline)) static void ge_threes_nine(ge_threes_block *block __attribute__((unused))) {
    __asm__ volatile(
        "add r12, r0, #16\n"
        "stm r12, {r4-r11, lr}\n"
        "mov lr, r0\n"
        "ldrd r0, r1, [lr]\n"
        "movs r2, #0\n"
        "movs r3, #0\n"
        "movs r4, #0\n"
        "movs r5, #0\n"
        "movs r6, #0\n"
        "movs r7, #0\n"
        "1:\n"
        GE_THREES_NINE_BY_TWO("0", "1")
        GE_THREES_NINE_BY_TWO("2", "3")
        GE_THREES_NINE_BY_TWO("4", "5")
        GE_THREES_NINE_BY_TWO("6", "7")
        "ldr r8, [lr, #12]\n"
        "adds r0, r0, #8\n"
        "cmp r0, r8\n"
        "bne 1b\n"
        "strd r0, r1, [lr]\n"
        "ldr r1, [lr, #8]\n"
        GE_THREES_DECODE("r2", "r3")
        GE_THREES_DECODE("r4", "r5")
        GE_THREES_DECODE("r6", "r7")
        "add r12, lr, #16\n"
        "ldm r12, {r4-r11, pc}\n");
}

/* Two inputs, three channels: 6 MACs in 7 instructions. */
#define GE_THREES_THREE_BY_TWO(first, second) \
    "ldm r1!, {r9, r10, r11, r12}\n" \
    "ldrsb r8, [r0, #" first "]\n" \
    "mla r2, r9, r8, r2\n" \
    "mla r3, r10, r8, r3\n" \
    "ldrsb r8, [r0, #" second "]\n" \
    "mla r2, r11, r8, r2\n" \
    "mla r3, r12, r8, r3\n"

/* Three channels, with the same registers. */
__attribute__((naked, noinline)) static void ge_threes_three(ge_threes_block *block __attribute__((unused))) {
    __asm__ volatile(
        "add r12, r0, #16\n"
        "stm r12, {r4-r11, lr}\n"
        "mov lr, r0\n"
        "ldrd r0, r1, [lr]\n"
        "ldr r4, [lr, #12]\n"
        "movs r2, #0\n"
        "movs r3, #0\n"
        "1:\n"
        GE_THREES_THREE_BY_TWO("0", "1")
        GE_THREES_THREE_BY_TWO("2", "3")
        GE_THREES_THREE_BY_TWO("4", "5")
        GE_THREES_THREE_BY_TWO("6", "7")
        "adds r0, r0, #8\n"
        "cmp r0, r4\n"
        "bne 1b\n"
        "strd r0, r1, [lr]\n"
        "ldr r1, [lr, #8]\n"
        GE_THREES_DECODE("r2", "r3")
        "add r12, lr, #16\n"
        "ldm r12, {r4-r11, pc}\n");
}

/* clang-format on */

/* Words of the law of a channel: a nine (or three) has its biases, then its multipliers. */
#define GE_THREES_LAW 2

typedef struct {
    int32_t zero_point;
    int32_t lo;
    int32_t hi;
} ge_threes_range;

static inline ge_threes_range ge_threes_range_of(int32_t zero_point, int32_t lo, int32_t hi) {
    const ge_threes_range range = {zero_point, lo, hi};
    return range;
}

/* What sums begin with: the biases. */
static inline void ge_threes_begin(const int32_t *law, int32_t size, int32_t *sums) {
    for (int32_t i = 0; i < size; i += 3) {
        __asm__ volatile("ldm %[law]!, {r2, r3, r4}\n"
                         "stm %[sums]!, {r2, r3, r4}\n"
                         : [law] "+&r"(law), [sums] "+&r"(sums)
                         :
                         : "r2", "r3", "r4", "memory");
    }
}

/* `count` outputs from the sums of a nine or three of `size` channels, by the integer law with a shift of 32. */
static inline void ge_threes_finish(const ge_threes_range *range, const int32_t *law, int32_t size, const int32_t *sums,
                                    int32_t count, int8_t *out) {
    const int32_t *const end = sums + count;
    int8_t *at = out;
    law += size;
    __asm__ volatile("1:\n"
                     "ldr r4, [%[sums]], #4\n"
                     "ldr r5, [%[law]], #4\n"
                     "mov r2, #0x80000000\n"
                     "mov r3, %[zero_point]\n"
                     "smlal r2, r3, r4, r5\n"
                     "ssat r3, #8, r3\n"
                     "strb r3, [%[at]], #1\n"
                     "cmp %[sums], %[end]\n"
                     "bne 1b\n"
                     : [sums] "+&r"(sums), [law] "+&r"(law), [at] "+&r"(at)
                     : [zero_point] "r"(range->zero_point), [end] "r"(end)
                     : "r2", "r3", "r4", "r5", "cc", "memory");
    if (range->lo > INT8_MIN || range->hi < INT8_MAX) {
        for (int32_t i = 0; i < count; i++) {
            out[i] = (int8_t)(out[i] < range->lo ? range->lo : (out[i] > range->hi ? range->hi : out[i]));
        }
    }
}

/* Inputs as the sums want them: as they are. */
static inline void ge_threes_take(int8_t *to, const int8_t *from, int32_t count) {
    memcpy(to, from, (size_t)count);
}

static inline void ge_threes_fill(int8_t *to, int32_t value, int32_t count) {
    const uint32_t word = ((uint32_t)value & 0xFFu) * 0x01010101u;
    for (; count >= 4; count -= 4) {
        memcpy(to, &word, 4);
        to += 4;
    }
    for (; count > 0; count--) {
        *to++ = (int8_t)value;
    }
}

/* Whether inputs can be read where they are. */
#define GE_THREES_IN_PLACE 1

#endif
