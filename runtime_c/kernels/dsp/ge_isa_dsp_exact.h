/* Products of int16 with int16 in sums of 64 bits for Cortex-M4, M7 and M33: two channels of two pixels at a time.
 *
 * The stream has for two channels their biases (64 bits each), words of two k of the one and of the other in turn, up to a multiple of
 * eight k, and their multipliers; the last channel of an odd number is there twice. Requantization has a shift of 33 and more, so
 * that the half that is added is a multiple of 2^32: what is needed is the upper word of sum * multiplier. A shift of 32 is one of 33
 * with twice the multiplier, which the stream has.
 *
 * r0 weights, r1 pixels, r2 r3 the first channel of the first pixel, r4 r5 of the other, r6-r9 the second channel, r10 weights, r11 r12
 * pixels, lr turns. 43 cycles for 32 products, and 18 for each output. */
#ifndef GE_ISA_DSP_EXACT_H
#define GE_ISA_DSP_EXACT_H

#include "ge.h"
#include "ge_dsp_wide.h"
#include "ge_isa_dsp_frame.h"

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const uint32_t *w; /* the stream, from two channels on */
    const uint32_t *x; /* columns of two pixels, interleaved */
    int32_t turns;     /* of eight k */
    int32_t twos;      /* pairs of channels */
    int16_t *out[2];   /* addresses of the channels of both pixels */
    int32_t half, shift, zero_point;
} ge_dsp_exact_job;

/* clang-format off */

/* The upper word of a two-word sum times a multiplier. */
#define GE_DSP_EXACT_UPPER(low, high, m) \
    "    umull lr, r12, " low ", " m "\n" \
    "    mla " low ", " high ", " m ", r12\n"

#define GE_DSP_EXACT_EACH(instruction, operand) \
    "    " instruction " r2, r2, " operand "\n" \
    "    " instruction " r4, r4, " operand "\n" \
    "    " instruction " r6, r6, " operand "\n" \
    "    " instruction " r8, r8, " operand "\n"

__attribute__((unused, noinline)) static void ge_dsp_exact_products(const ge_dsp_exact_job *job) {
    register const ge_dsp_exact_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_ENTER(ge_dsp_exact_products, 0, "r1-r6, r8-r10")
        "    ldr.w r0, [sp, #4*0]\n"
        "2:\n"
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
        "    ldm.w r0!, {r10, r11}\n"
        GE_DSP_EXACT_UPPER("r2", "r3", "r10")
        GE_DSP_EXACT_UPPER("r4", "r5", "r10")
        GE_DSP_EXACT_UPPER("r6", "r7", "r11")
        GE_DSP_EXACT_UPPER("r8", "r9", "r11")
        "    ldr.w r3, [sp, #4*6]\n"
        "    ldr.w r5, [sp, #4*7]\n"
        "    ldr.w r7, [sp, #4*8]\n"
        "    ldr.w r9, [sp, #4*4]\n"
        "    ldr.w r12, [sp, #4*5]\n"
        "    ldr.w lr, [sp, #4*3]\n"
        GE_DSP_EXACT_EACH("add.w", "r3")
        GE_DSP_EXACT_EACH("asr.w", "r5")
        GE_DSP_EXACT_EACH("add.w", "r7")
        "    ssat r2, #16, r2\n"
        "    ssat r4, #16, r4\n"
        "    ssat r6, #16, r6\n"
        "    ssat r8, #16, r8\n"
        "    strh.w r4, [r12]\n" /* a lone pixel is written last */
        "    strh.w r8, [r12, #2]\n"
        "    strh.w r2, [r9]\n"
        "    strh.w r6, [r9, #2]\n"
        "    add.w r9, r9, #4\n"
        "    add.w r12, r12, #4\n"
        "    subs.w lr, lr, #1\n"
        "    str.w r9, [sp, #4*4]\n"
        "    str.w r12, [sp, #4*5]\n"
        "    str.w lr, [sp, #4*3]\n"
        "    bne.w 2b\n"
        GE_DSP_LEAVE
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

/* The requantization, whose outputs are clamped to lo..hi. */
typedef struct {
    int32_t half, shift; /* of the upper word */
    int32_t zero_point, lo, hi;
} ge_dsp_exact_law;

#define GE_DSP_EXACT_SHIFT(p) ((p)->shift < 33 ? 33 : (p)->shift)
#define GE_DSP_EXACT_LAW(p)                                                                                            \
    {(int32_t)1 << (GE_DSP_EXACT_SHIFT(p) - 33), GE_DSP_EXACT_SHIFT(p) - 32, (p)->out_zero_point, (p)->lo, (p)->hi}

/* The output of a sum of two words. */
static inline int16_t ge_dsp_exact_output(const ge_dsp_exact_law *law, uint32_t low, int32_t high, int32_t multiplier) {
    const int32_t upper =
        (int32_t)(((uint64_t)low * (uint32_t)multiplier) >> 32) + (int32_t)((uint32_t)high * (uint32_t)multiplier);
    const int32_t y = ((upper + law->half) >> law->shift) + law->zero_point;
    return (int16_t)(y < law->lo ? law->lo : (y > law->hi ? law->hi : y));
}

/* Computes all `channels` of two pixels, whose columns are interleaved, at `out`; the last one of an odd number goes
 * through a buffer. */
__attribute__((unused, noinline)) static void ge_dsp_exact_pixels(const uint32_t *stream, const uint32_t *columns,
                                                                  int32_t turns, int32_t channels,
                                                                  const ge_dsp_exact_law *law, int16_t *const *out) {
    ge_dsp_exact_job job = {stream,           columns,   turns,      channels / 2,
                            {out[0], out[1]}, law->half, law->shift, law->zero_point};
    if (job.twos > 0) {
        ge_dsp_exact_products(&job);
    }
    if ((channels & 1) != 0) {
        int16_t last[2][2];
        job.w = stream + channels / 2 * (6 + 8 * turns);
        job.twos = 1;
        job.out[0] = last[0];
        job.out[1] = last[1];
        ge_dsp_exact_products(&job);
        out[1][channels - 1] = last[1][0];
        out[0][channels - 1] = last[0][0];
    }
    if (law->lo > INT16_MIN || law->hi < INT16_MAX) {
        ge_dsp_wide_clamp(out[1], channels, law->lo, law->hi);
        ge_dsp_wide_clamp(out[0], channels, law->lo, law->hi);
    }
}

#endif
