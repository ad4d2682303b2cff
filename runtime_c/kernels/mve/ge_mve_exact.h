/* Products of int16 with int16 in sums of 64 bits for Helium: two channels of two pixels at a time.
 *
 * VMLALDAVA adds eight products to a pair of core registers: of eight k, 4 loads and 4 such for 32 products. Sums of a pixel lie in scratch
 * until all channels are done; then VLD2 parts their words, and four outputs take 11 instructions. Requantization has a shift of
 * 33 and more, so that the half that is added is a multiple of 2^32: what is needed is the upper word of sum * multiplier. A shift of
 * 32 is one of 33 with twice the multiplier, which the stream has.
 *
 * The stream has the multipliers of a group, up to a multiple of four, then for two channels their biases (64 bits each), and eight k
 * of the one and of the other in turn; the last channel of an odd number is there twice.
 *
 *   r0 r1 first channel of the first pixel, r2 r3 of the other, r4 r5 and r8 r9 the second channel; r6 weights, r10 r12 pixels,
 *   r11 the job; q0 q1 weights, q2 q3 pixels */
#ifndef GE_MVE_EXACT_H
#define GE_MVE_EXACT_H

#include "ge.h"
#include "ge_mve.h"

/* Job of the loop, in the order of the offsets in the assembly. */
typedef struct {
    const int16_t *x[2];
    const int8_t *stream; /* 8: the stream, from two channels on */
    int64_t *sums;        /* 12: of the first pixel */
    int32_t turns;        /* 16: of two steps of eight k */
    int32_t other;        /* 20: bytes from the sums of the first pixel to those of the other */
    int32_t twos;         /* 24: pairs of channels */
} ge_mve_exact_job;

/* clang-format off */

#define GE_MVE_EXACT_STEP \
    "vldrh.u16 q0, [r6], #16\n" \
    "vldrh.u16 q2, [r10], #16\n" \
    "vldrh.u16 q3, [r12], #16\n" \
    "vmlaldava.s16 r0, r1, q0, q2\n" \
    "vldrh.u16 q1, [r6], #16\n" \
    "vmlaldava.s16 r2, r3, q0, q3\n" \
    "vmlaldava.s16 r4, r5, q1, q2\n" \
    "vmlaldava.s16 r8, r9, q1, q3\n"

/* Computes all sums, two steps a turn; `enter` may skip the first step of the first turn. */
#define GE_MVE_EXACT_SUMS(enter) \
    "ldr r6, [r11, #8]\n" \
    "1:\n" \
    "ldrd r10, r12, [r11]\n" \
    "ldr lr, [r11, #16]\n" \
    "ldrd r0, r1, [r6], #8\n" \
    "ldrd r4, r5, [r6], #8\n" \
    "ldrd r2, r3, [r6, #-16]\n" \
    "ldrd r8, r9, [r6, #-8]\n" \
    "dls lr, lr\n" \
    enter \
    "2:\n" \
    GE_MVE_EXACT_STEP \
    "3:\n" \
    GE_MVE_EXACT_STEP \
    "le lr, 2b\n" \
    "ldr lr, [r11, #12]\n" \
    "ldrd r10, r12, [r11, #20]\n" \
    "strd r0, r1, [lr]\n" \
    "strd r4, r5, [lr, #8]\n" \
    "add r10, r10, lr\n" \
    "add lr, lr, #16\n" \
    "subs r12, r12, #1\n" \
    "strd r2, r3, [r10]\n" \
    "strd r8, r9, [r10, #8]\n" \
    "str lr, [r11, #12]\n" \
    "str r12, [r11, #24]\n" \
    "bne.w 1b\n"

#define GE_MVE_EXACT_CHANGES \
    "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "cc", "memory"

__attribute__((unused, noinline)) static void ge_mve_exact_even(ge_mve_exact_job *job) {
    register ge_mve_exact_job *at __asm__("r11") = job;
    __asm__ volatile(GE_MVE_EXACT_SUMS("") : "+r"(at) : : GE_MVE_EXACT_CHANGES);
}

__attribute__((unused, noinline)) static void ge_mve_exact_odd(ge_mve_exact_job *job) {
    register ge_mve_exact_job *at __asm__("r11") = job;
    __asm__ volatile(GE_MVE_EXACT_SUMS("b 3f\n") : "+r"(at) : : GE_MVE_EXACT_CHANGES);
}

/* clang-format on */

/* Parameters of the requantization, in the order in which the loop loads them. */
typedef struct {
    int32_t lo, hi, zero_point, shift; /* amount for VRSHL of the upper word: negative */
} ge_mve_exact_law;

#define GE_MVE_EXACT_LAW(p) {(p)->lo, (p)->hi, (p)->out_zero_point, (p)->shift < 33 ? -1 : 32 - (p)->shift}

/* clang-format off */

/* Requantizes four sums of one pixel into q0. */
#define GE_MVE_EXACT_FOUR(sums) \
    "vld20.32 {q0, q1}, [" sums "]\n" \
    "vld21.32 {q0, q1}, [" sums "]!\n" \
    "vmulh.u32 q0, q0, q2\n" \
    "vmul.i32 q1, q1, q2\n" \
    "vadd.i32 q0, q0, q1\n" \
    "vrshl.s32 q0, r5\n" \
    "vqadd.s32 q0, q0, r4\n" \
    "vmax.s32 q0, q0, q4\n" \
    "vmin.s32 q0, q0, q5\n"

/* The outputs of two pixels with `channels` sums each. */
static inline void ge_mve_exact_outputs(const ge_mve_exact_law *law, const int64_t *sums, const int64_t *others,
                                        const int8_t *multiplier, int32_t channels, int16_t *o, int16_t *other) {
    __asm__ volatile("ldrd r4, r5, [%[law]]\n"
                     "vdup.32 q4, r4\n"
                     "vdup.32 q5, r5\n"
                     "ldrd r4, r5, [%[law], #8]\n"
                     "wls lr, %[fours], 2f\n"
                     "1:\n"
                     "vldrw.u32 q2, [%[multiplier]], #16\n"
                     GE_MVE_EXACT_FOUR("%[sums]")
                     "vstrh.32 q0, [%[o]], #8\n"
                     GE_MVE_EXACT_FOUR("%[others]")
                     "vstrh.32 q0, [%[other]], #8\n"
                     "le lr, 1b\n"
                     "2:\n"
                     "cbz %[rest], 3f\n"
                     "vldrw.u32 q2, [%[multiplier]]\n"
                     "vctp.32 %[rest]\n"
                     GE_MVE_EXACT_FOUR("%[sums]")
                     "vpst\n"
                     "vstrht.32 q0, [%[o]]\n"
                     GE_MVE_EXACT_FOUR("%[others]")
                     "vpst\n"
                     "vstrht.32 q0, [%[other]]\n"
                     "3:\n"
                     : [sums] "+&r"(sums), [others] "+&r"(others), [multiplier] "+&r"(multiplier), [o] "+&l"(o),
                       [other] "+&l"(other)
                     : [law] "r"(law), [fours] "r"(channels / 4), [rest] "l"(channels % 4)
                     : "r4", "r5", "lr", "q0", "q1", "q2", "q4", "q5", "cc", "memory");
}

/* clang-format on */

/* Returns the bytes of the stream for so many channels. */
static inline int32_t ge_mve_exact_size(int32_t channels, int32_t steps) {
    return (channels + 3) / 4 * 16 + (channels + 1) / 2 * (16 + 32 * steps);
}

/* Computes all channels of two pixels; a lone pixel is given twice. */
__attribute__((unused, noinline)) static void ge_mve_exact_pixels(const int16_t *const *x, const int8_t *stream,
                                                                  int32_t steps, int32_t channels,
                                                                  const ge_mve_exact_law *law, int64_t *sums,
                                                                  int16_t *const *out) {
    const int32_t rounded = (channels + 3) / 4 * 4;
    ge_mve_exact_job job = {{x[0], x[1]},    stream + 4 * rounded, sums,
                            (steps + 1) / 2, 8 * (int32_t)rounded, (channels + 1) / 2};
    if (steps % 2 == 0) {
        ge_mve_exact_even(&job);
    } else {
        ge_mve_exact_odd(&job);
    }
    ge_mve_exact_outputs(law, sums, sums + rounded, stream, channels, out[0], out[1]);
}

#endif
