/* Products of int16 with int16 in sums of 64 bits for Cortex-M4, M7 and M33: two channels of two pixels at a time.
 *
 * The stream has for two channels their biases (64 bits each), words of two k of the one and of the other in turn, and
 * their multipliers; the last channel of an odd number is there twice. Requantization has a shift of 33 and more, so
 * that what is needed is the upper words of sum * multiplier: ASRS leaves in the carry the half that ADC adds. A shift
 * of 32 is one of 33 with twice the multiplier, which the stream has.
 *
 * r0 weights, r1 pixels, r2 r3 the first channel of the first pixel, r4 r5 of the other, r6-r9 the second channel, r10
 * r12 weights, r11 lr pixels. 9 cycles for 8 products, 5 per iteration of 32 such steps, and 14 for each output. */
#ifndef GE_ISA_DSP_EXACT_H
#define GE_ISA_DSP_EXACT_H

#include "ge.h"
#include "ge_dsp_wide.h"
#include "ge_isa_dsp_frame.h"

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const uint32_t *w; /* the stream, from two channels on */
    const uint32_t *x; /* columns of two pixels, interleaved */
    uint32_t skip;     /* bytes of the unrolled loop that its first iteration skips */
    int32_t bytes;     /* of the weights of two channels */
    int16_t *out[2];   /* addresses of the channels of both pixels */
    int32_t law;       /* the shift of the upper word, and GE_DSP_EXACT_RELU where outputs saturate to 0..32767 */
    int32_t zero_point;
    const int16_t *end; /* of the channels of the first pixel */
} ge_dsp_exact_job;

#define GE_DSP_EXACT_RELU 256
#define GE_DSP_EXACT_STEP 32
#define GE_DSP_EXACT_UNROLL 32

/* clang-format off */

/* The upper words of a sum times a multiplier, in the lower register of the sum. */
#define GE_DSP_EXACT_UPPER(low, high, m) \
    "    umull r12, " low ", " low ", " m "\n" \
    "    mla " low ", " high ", " m ", " low "\n"

/* Shifts by r3, rounds, and adds the zero point in r5. */
#define GE_DSP_EXACT_ROUND(y) \
    "    asrs.w " y ", " y ", r3\n" \
    "    adc.w " y ", " y ", r5\n"

__attribute__((unused, noinline)) static void ge_dsp_exact_products(const ge_dsp_exact_job *job) {
    register const ge_dsp_exact_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_ENTER(ge_dsp_exact_products, 0, "r1-r6, r8-r10")
        "    mov.w r0, r1\n"
        "    adr r1, 3f\n"
        "    add r1, r1, r3\n"
        "    orr r1, r1, #1\n"
        "    str.w r1, [sp, #4*2]\n"
        "    b.w 2f\n"
        "    .balign 4\n"
        "2:\n" /* two channels */
        "    ldr.w lr, [sp, #4*3]\n"
        "    ldr.w r1, [sp, #4*1]\n"
        "    ldr.w r12, [sp, #4*2]\n"
        "    ldm.w r0!, {r2, r3, r6, r7}\n"
        "    add.w lr, lr, r0\n"
        "    str.w lr, [sp, #4*9]\n"
        "    mov.w r4, r2\n"
        "    mov.w r5, r3\n"
        "    mov.w r8, r6\n"
        "    mov.w r9, r7\n"
        "    bx r12\n"
        "    .balign 4\n"
        "3:\n"
        "    .rept 32\n"
        "    ldr.w r12, [r0, #4]\n"
        "    ldr.w lr, [r1, #4]\n"
        "    ldr.w r10, [r0], #8\n"
        "    ldr.w r11, [r1], #8\n"
        "    smlald r6, r7, r12, r11\n"
        "    smlald r8, r9, r12, lr\n"
        "    smlald r2, r3, r10, r11\n"
        "    smlald r4, r5, r10, lr\n"
        "    .endr\n"
        "    ldr.w r12, [sp, #4*9]\n"
        "    cmp.w r0, r12\n"
        "    bne.w 3b\n"
        "    ldm.w r0!, {r10, r11}\n"
        GE_DSP_EXACT_UPPER("r2", "r3", "r10")
        GE_DSP_EXACT_UPPER("r4", "r5", "r10")
        GE_DSP_EXACT_UPPER("r6", "r7", "r11")
        GE_DSP_EXACT_UPPER("r8", "r9", "r11")
        "    ldr.w r3, [sp, #4*6]\n"
        "    ldr.w r5, [sp, #4*7]\n"
        "    ldr.w r7, [sp, #4*4]\n"
        "    ldr.w r9, [sp, #4*5]\n"
        "    ldr.w r10, [sp, #4*8]\n"
        GE_DSP_EXACT_ROUND("r2")
        GE_DSP_EXACT_ROUND("r4")
        GE_DSP_EXACT_ROUND("r6")
        GE_DSP_EXACT_ROUND("r8")
        "    tst.w r3, #256\n"
        "    beq.w 5f\n"
        "    usat r2, #15, r2\n"
        "    usat r4, #15, r4\n"
        "    usat r6, #15, r6\n"
        "    usat r8, #15, r8\n"
        "4:\n"
        "    pkhbt r4, r4, r8, lsl #16\n"
        "    pkhbt r2, r2, r6, lsl #16\n"
        "    str.w r4, [r9], #4\n" /* a lone pixel is written last */
        "    str.w r2, [r7], #4\n"
        "    cmp.w r7, r10\n"
        "    str.w r7, [sp, #4*4]\n"
        "    str.w r9, [sp, #4*5]\n"
        "    bne.w 2b\n"
        "    b.w 6f\n"
        "5:\n"
        "    ssat r2, #16, r2\n"
        "    ssat r4, #16, r4\n"
        "    ssat r6, #16, r6\n"
        "    ssat r8, #16, r8\n"
        "    b.w 4b\n"
        "6:\n"
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
 * through a buffer. steps: pairs of k. */
__attribute__((unused, noinline)) static void ge_dsp_exact_pixels(const uint32_t *stream, const uint32_t *columns,
                                                                  int32_t steps, int32_t channels,
                                                                  const ge_dsp_exact_law *law, int16_t *const *out) {
    const int32_t relu = ge_dsp_wide_is_relu(law->lo, law->hi), rest = steps % GE_DSP_EXACT_UNROLL;
    ge_dsp_exact_job job = {stream,
                            columns,
                            rest == 0 ? 0u : (uint32_t)((GE_DSP_EXACT_UNROLL - rest) * GE_DSP_EXACT_STEP),
                            8 * steps,
                            {out[0], out[1]},
                            law->shift + (relu ? GE_DSP_EXACT_RELU : 0),
                            law->zero_point,
                            out[0] + channels / 2 * 2};
    if (channels > 1) {
        ge_dsp_exact_products(&job);
    }
    if ((channels & 1) != 0) {
        int16_t last[2][2];
        job.w = stream + channels / 2 * (6 + 2 * steps);
        job.out[0] = last[0];
        job.out[1] = last[1];
        job.end = last[0] + 2;
        ge_dsp_exact_products(&job);
        out[1][channels - 1] = last[1][0];
        out[0][channels - 1] = last[0][0];
    }
    if (!relu && (law->lo > INT16_MIN || law->hi < INT16_MAX)) {
        ge_dsp_wide_clamp(out[1], channels, law->lo, law->hi);
        ge_dsp_wide_clamp(out[0], channels, law->lo, law->hi);
    }
}

#endif
