/* Products of int16 with int16 in sums of 64 bits for Helium: two channels of two pixels at a time.
 *
 * VMLALDAVA adds eight products to a pair of core registers: of eight k, 4 loads and 4 such for 32 products. Sums of a pixel lie in scratch
 * until all channels are done; then VLD2 parts their words, and four outputs take 14 instructions. Requantization has a shift of
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
    int32_t steps;        /* 16: of eight k */
    int32_t other;        /* 20: bytes from the sums of the first pixel to those of the other */
    int32_t twos;         /* 24: pairs of channels */
} ge_mve_exact_job;

__attribute__((unused, noinline)) static void ge_mve_exact_products(ge_mve_exact_job *job) {
    register ge_mve_exact_job *at __asm__("r11") = job;
    __asm__ volatile("ldr r6, [r11, #8]\n"
                     "1:\n"
                     "ldrd r10, r12, [r11]\n"
                     "ldrd r0, r1, [r6], #8\n"
                     "ldrd r4, r5, [r6], #8\n"
                     "ldr lr, [r11, #16]\n"
                     "mov r2, r0\n"
                     "mov r3, r1\n"
                     "mov r8, r4\n"
                     "mov r9, r5\n"
                     "dls lr, lr\n"
                     "2:\n"
                     "vldrh.u16 q0, [r6], #16\n"
                     "vldrh.u16 q2, [r10], #16\n"
                     "vldrh.u16 q3, [r12], #16\n"
                     "vmlaldava.s16 r0, r1, q0, q2\n"
                     "vldrh.u16 q1, [r6], #16\n"
                     "vmlaldava.s16 r2, r3, q0, q3\n"
                     "vmlaldava.s16 r4, r5, q1, q2\n"
                     "vmlaldava.s16 r8, r9, q1, q3\n"
                     "le lr, 2b\n"
                     "ldr lr, [r11, #12]\n"
                     "ldrd r10, r12, [r11, #20]\n"
                     "strd r0, r1, [lr]\n"
                     "strd r4, r5, [lr, #8]\n"
                     "add r10, r10, lr\n"
                     "add lr, lr, #16\n"
                     "subs r12, r12, #1\n"
                     "strd r2, r3, [r10]\n"
                     "strd r8, r9, [r10, #8]\n"
                     "str lr, [r11, #12]\n"
                     "str r12, [r11, #24]\n"
                     "bne 1b\n"
                     : "+r"(at)
                     :
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3",
                       "cc", "memory");
}

/* Parameters of the requantization, in the order in which the loop loads them. */
typedef struct {
    int32_t lo, hi, zero_point, shift; /* amount for VRSHL of the upper word: negative */
} ge_mve_exact_law;

#define GE_MVE_EXACT_LAW(p) {(p)->lo, (p)->hi, (p)->out_zero_point, (p)->shift < 33 ? -1 : 32 - (p)->shift}

/* The outputs of `channels` sums. */
static inline void ge_mve_exact_outputs(const ge_mve_exact_law *law, const int64_t *sums, const int8_t *multiplier,
                                        int32_t channels, int16_t *o) {
    __asm__ volatile("ldrd r4, r5, [%[law]]\n"
                     "vdup.32 q4, r4\n"
                     "vdup.32 q5, r5\n"
                     "ldrd r4, r5, [%[law], #8]\n"
                     "dls lr, %[fours]\n"
                     "1:\n"
                     "vld20.32 {q0, q1}, [%[sums]]\n"
                     "vld21.32 {q0, q1}, [%[sums]]!\n"
                     "vldrw.u32 q2, [%[multiplier]], #16\n"
                     "vmulh.u32 q0, q0, q2\n"
                     "vmul.i32 q1, q1, q2\n"
                     "vadd.i32 q0, q0, q1\n"
                     "vrshl.s32 q0, r5\n"
                     "vqadd.s32 q0, q0, r4\n"
                     "vmax.s32 q0, q0, q4\n"
                     "vmin.s32 q0, q0, q5\n"
                     "vctp.32 %[rest]\n"
                     "vpst\n"
                     "vstrht.32 q0, [%[o]], #8\n"
                     "subs %[rest], %[rest], #4\n"
                     "le lr, 1b\n"
                     : [sums] "+&r"(sums), [multiplier] "+&r"(multiplier), [o] "+&l"(o), [rest] "+&r"(channels)
                     : [law] "r"(law), [fours] "r"((channels + 3) / 4)
                     : "r4", "r5", "lr", "q0", "q1", "q2", "q4", "q5", "cc", "memory");
}

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
    ge_mve_exact_job job = {{x[0], x[1]}, stream + 4 * rounded, sums, steps, 8 * (int32_t)rounded, (channels + 1) / 2};
    ge_mve_exact_products(&job);
    ge_mve_exact_outputs(law, sums, stream, channels, out[0]);
    if (out[1] != out[0]) {
        ge_mve_exact_outputs(law, sums + rounded, stream, channels, out[1]);
    }
}

#endif
