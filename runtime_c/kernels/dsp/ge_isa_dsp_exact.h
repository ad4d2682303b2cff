/* Products of int16 with int16 in sums of 64 bits for Cortex-M4, M7 and M33: two channels of two pixels at a time.
 *
 * The stream has for two channels their biases (64 bits each), words of two k of the one and of the other in turn, up to a multiple of
 * eight k, and their multipliers; the last channel of an odd number is there twice. Requantization has a shift of 33 and more, so
 * that the half that is added is a multiple of 2^32: what is needed is the upper word of sum * multiplier.
 *
 * r0 weights, r1 pixels, r2 r3 the first channel of the first pixel, r4 r5 of the other, r6-r9 the second channel, r10 weights, r11 r12
 * pixels, lr turns. 43 cycles for 32 products, and some 20 for each output. */
#ifndef GE_ISA_DSP_EXACT_H
#define GE_ISA_DSP_EXACT_H

#include "ge.h"
#include "ge_isa_dsp_frame.h"

typedef struct {
    const uint32_t *w; /* a stream from two channels on */
    const uint32_t *x; /* columns of two pixels interleaved */
    int32_t turns;     /* of eight k */
    uint32_t *sums;    /* of four outputs: words of the first pixel and of the other, for each channel */
} ge_dsp_exact_job;

/* clang-format off */

__attribute__((unused, noinline)) static void ge_dsp_exact_products(const ge_dsp_exact_job *job) {
    register const ge_dsp_exact_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_ENTER(ge_dsp_exact_products, 0, "r1-r4")
        "    ldr.w r0, [sp, #4*0]\n"
        "    ldr.w r1, [sp, #4*1]\n"
        "    ldr.w lr, [sp, #4*2]\n"
        "    ldm.w r0!, {r2, r3, r6, r7}\n"
        "    mov.w r4, r2\n"
        "    mov.w r5, r3\n"
        "    mov.w r8, r6\n"
        "    mov.w r9, r7\n"
        "    .balign 4\n"
        "1:\n"
        "    .rept 4\n"
        "    ldr.w r10, [r0, #4]\n"
        "    ldr.w r12, [r1, #4]\n"
        "    ldr.w r11, [r1], #8\n"
        "    smlald r6, r7, r10, r11\n"
        "    smlald r8, r9, r10, r12\n"
        "    ldr.w r10, [r0], #8\n"
        "    smlald r2, r3, r10, r11\n"
        "    smlald r4, r5, r10, r12\n"
        "    .endr\n"
        "    subs.w lr, lr, #1\n"
        "    bne.w 1b\n"
        "    ldr.w r0, [sp, #4*3]\n"
        "    stm.w r0, {r2-r9}\n"
        GE_DSP_LEAVE
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

/* The law, whose outputs are clamped to lo..hi. */
typedef struct {
    int32_t half, shift; /* of the upper word */
    int32_t zero_point, lo, hi;
} ge_dsp_exact_law;

#define GE_DSP_EXACT_LAW(p) {(int32_t)1 << ((p)->shift - 33), (p)->shift - 32, (p)->out_zero_point, (p)->lo, (p)->hi}

/* The output of a sum of two words. */
static inline int16_t ge_dsp_exact_output(const ge_dsp_exact_law *law, uint32_t low, int32_t high, int32_t multiplier) {
    const int32_t upper = (int32_t)(((uint64_t)low * (uint32_t)multiplier) >> 32) + high * multiplier;
    const int32_t y = ((upper + law->half) >> law->shift) + law->zero_point;
    return (int16_t)(y < law->lo ? law->lo : (y > law->hi ? law->hi : y));
}

/* All `channels` of two pixels, whose columns are interleaved, at `out`. */
__attribute__((unused, noinline)) static void ge_dsp_exact_pixels(const uint32_t *stream, const uint32_t *columns,
                                                                  int32_t turns, int32_t channels,
                                                                  const ge_dsp_exact_law *law, int16_t *const *out) {
    uint32_t sums[8];
    ge_dsp_exact_job job = {stream, columns, turns, sums};
    for (int32_t c = 0; c < channels; c += 2) {
        const uint32_t *const multiplier = job.w + 4 + 8 * turns;
        ge_dsp_exact_products(&job);
        for (int32_t i = 0; i < 2 && c + i < channels; i++) {
            const uint32_t *const s = sums + 4 * i;
            const int32_t m = (int32_t)multiplier[i];
            out[1][c + i] = ge_dsp_exact_output(law, s[2], (int32_t)s[3], m); /* a lone pixel is written last */
            out[0][c + i] = ge_dsp_exact_output(law, s[0], (int32_t)s[1], m);
        }
        job.w = multiplier + 2;
    }
}

#endif
