/* Fully connected layers of int16 for Cortex-M4, M7 and M33: four outputs of one vector at a time. The requantization
 * has shift 32.
 *
 * With int8 weights two channels share a half-word, 256 * a + b: SMLALD on the raw word adds up S = 256 * A + B in 64
 * bits, SXTB16 leaves b and SMLAD adds up B; A = (S - B) / 256. This is exact where A and B fit 32 bits. r0 weights, r1
 * x, r2 r3 S01, r4 r5 S23, r6 B01, r7 B23, r8 r9 x, r10 r11 r12 lr weights; 20 cycles for 16 products. With int16
 * weights: r2-r5 sums, r6 x, r8-r11 weights; 10 cycles for 8 products. */
#ifndef GE_ISA_DSP_WIDE_FC_H
#define GE_ISA_DSP_WIDE_FC_H

#include "ge.h"
#include "ge_dsp_wide.h"
#include "ge_isa_dsp_frame.h"
#include "ge_params.h"

#pragma GCC diagnostic ignored "-Woverlength-strings"

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const int16_t *x;
    int32_t groups;    /* groups of four outputs */
    const uint32_t *w; /* for each group: start values, weights, 4 multipliers */
    uint32_t bytes;    /* bytes of the weights of a group */
    int32_t zero_point;
    int32_t relu; /* 1: outputs saturate to 0..32767 */
    int16_t *out;
} ge_dsp_wide_fc_job;

/* clang-format off */

/* Requantizes four sums in `a` to `d`, with multipliers at r0, and advances to the next four outputs at 1. */
#define GE_DSP_WIDE_FC_END(a, b, c, d) \
    "    ldr.w r9, [r0, #4]\n" \
    "    ldr.w r10, [r0, #8]\n" \
    "    ldr.w r11, [r0, #12]\n" \
    "    ldr.w r8, [r0], #16\n" \
    "    ldr.w r12, [sp, #4*4]\n" \
    "    ldr.w lr, [sp, #4*5]\n" \
    "    ldr.w r1, [sp, #4*6]\n" \
    "    smmlar " a ", " a ", r8, r12\n" \
    "    smmlar " b ", " b ", r9, r12\n" \
    "    smmlar " c ", " c ", r10, r12\n" \
    "    smmlar " d ", " d ", r11, r12\n" \
    "    ldr.w r12, [sp, #4*1]\n" \
    "    cmp.w lr, #0\n" \
    "    bne.w 4f\n" \
    "    ssat " a ", #16, " a "\n" \
    "    ssat " b ", #16, " b "\n" \
    "    ssat " c ", #16, " c "\n" \
    "    ssat " d ", #16, " d "\n" \
    "    b.w 5f\n" \
    "4:\n" \
    "    usat " a ", #15, " a "\n" \
    "    usat " b ", #15, " b "\n" \
    "    usat " c ", #15, " c "\n" \
    "    usat " d ", #15, " d "\n" \
    "5:\n" \
    "    strh.w " b ", [r1, #2]\n" \
    "    strh.w " c ", [r1, #4]\n" \
    "    strh.w " d ", [r1, #6]\n" \
    "    strh " a ", [r1], #8\n" \
    "    subs.w r12, r12, #1\n" \
    "    str.w r1, [sp, #4*6]\n" \
    "    str.w r12, [sp, #4*1]\n" \
    "    bne.w 1b\n"

/* int8 weights. */
__attribute__((unused, noinline)) static void ge_dsp_wide_fc_shared(const ge_dsp_wide_fc_job *job) {
    register const ge_dsp_wide_fc_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_ENTER(ge_dsp_wide_fc_shared, 0, "r1-r6, r8")
        "    mov.w r0, r3\n"
        "    .balign 4\n"
        "1:\n"
        "    ldm.w r0!, {r2-r7}\n"
        "    ldr.w r8, [sp, #4*3]\n"
        "    ldr.w r1, [sp, #4*0]\n"
        "    add.w r8, r8, r0\n"
        "    str.w r8, [sp, #4*8]\n"
        "    .balign 4\n"
        "3:\n"
        "    .rept 4\n"
        "    ldr.w r8, [r1, #4]\n"
        "    ldr.w r9, [r1], #8\n"
        "    ldr.w r10, [r0, #4]\n"
        "    ldr.w r11, [r0, #8]\n"
        "    ldr.w r12, [r0, #12]\n"
        "    ldr.w lr, [r0], #16\n"
        "    smlald r2, r3, lr, r9\n"
        "    smlald r4, r5, r10, r9\n"
        "    smlald r2, r3, r11, r8\n"
        "    smlald r4, r5, r12, r8\n"
        "    sxtb16 lr, lr\n"
        "    sxtb16 r10, r10\n"
        "    sxtb16 r11, r11\n"
        "    sxtb16 r12, r12\n"
        "    smlad r6, lr, r9, r6\n"
        "    smlad r7, r10, r9, r7\n"
        "    smlad r6, r11, r8, r6\n"
        "    smlad r7, r12, r8, r7\n"
        "    .endr\n"
        "    ldr.w r12, [sp, #4*8]\n"
        "    cmp.w r0, r12\n"
        "    bne.w 3b\n"
        "    subs.w r2, r2, r6\n"
        "    sbc.w r3, r3, r6, asr #31\n"
        "    subs.w r4, r4, r7\n"
        "    sbc.w r5, r5, r7, asr #31\n"
        "    lsr.w r2, r2, #8\n"
        "    orr.w r2, r2, r3, lsl #24\n"
        "    lsr.w r4, r4, #8\n"
        "    orr.w r4, r4, r5, lsl #24\n"
        GE_DSP_WIDE_FC_END("r2", "r6", "r4", "r7")
        GE_DSP_LEAVE
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* int16 weights. */
__attribute__((unused, noinline)) static void ge_dsp_wide_fc_whole(const ge_dsp_wide_fc_job *job) {
    register const ge_dsp_wide_fc_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_ENTER(ge_dsp_wide_fc_whole, 0, "r1-r6, r8")
        "    mov.w r0, r3\n"
        "    .balign 4\n"
        "1:\n"
        "    ldm.w r0!, {r2-r5}\n"
        "    ldr.w r12, [sp, #4*3]\n"
        "    ldr.w r1, [sp, #4*0]\n"
        "    add.w r12, r12, r0\n"
        "    .balign 4\n"
        "3:\n"
        "    .rept 8\n"
        "    ldr.w r9, [r0, #4]\n"
        "    ldr.w r10, [r0, #8]\n"
        "    ldr.w r11, [r0, #12]\n"
        "    ldr.w r6, [r1], #4\n"
        "    ldr.w r8, [r0], #16\n"
        "    smlad r3, r9, r6, r3\n"
        "    smlad r4, r10, r6, r4\n"
        "    smlad r5, r11, r6, r5\n"
        "    smlad r2, r8, r6, r2\n"
        "    .endr\n"
        "    cmp.w r0, r12\n"
        "    bne.w 3b\n"
        GE_DSP_WIDE_FC_END("r2", "r3", "r4", "r5")
        GE_DSP_LEAVE
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

/* Returns the vector; if its length is not a multiple of 16, a copy in scratch that is filled up with zeros. */
static inline const int16_t *ge_dsp_wide_fc_x(const int16_t *x, int32_t count, int16_t *scratch) {
    if (count % 16 == 0 || scratch == NULL) { /* scratch is NULL if no layer needs it, which gcc cannot know */
        return x;
    }
    memcpy(scratch, x, (size_t)count * 2);
    for (int32_t i = count; i % 16 != 0; i++) {
        scratch[i] = 0;
    }
    return scratch;
}

/* Computes output rows first..last-1; `bytes`: those of a weight, 1 or 2. */
static inline void ge_dsp_wide_fc(const ge_fc_s16_params *p, const ge_rows *x, const uint32_t *stream, int32_t bytes,
                                  const ge_rows *out, int32_t first, int32_t last, void *scratch) {
    const int32_t relu = ge_dsp_wide_is_relu(p->lo, p->hi);
    const int32_t k = (p->in_c + 15) / 16 * 16;
    const int32_t words = bytes == 1 ? k : 2 * k; /* words of the weights of four outputs */
    const int32_t start = bytes == 1 ? 6 : 4;     /* words of their start values */
    const int32_t rest = p->out_c & 3;
    for (int32_t y = first; y < last; y++) {
        const int16_t *const vector = ge_dsp_wide_fc_x((const int16_t *)ge_row(x, y), p->in_c, (int16_t *)scratch);
        int16_t *const o = (int16_t *)ge_row(out, y);
        int16_t few[4] = {0};
        ge_dsp_wide_fc_job job = {vector, rest != 0 ? 1 : p->out_c / 4, stream, (uint32_t)words * 4u, p->out_zero_point,
                                  relu,   p->out_c < 4 ? few : o};
        for (int32_t done = 0; done < 2 && job.groups > 0; done++) {
            if (bytes == 1) {
                ge_dsp_wide_fc_shared(&job);
            } else {
                ge_dsp_wide_fc_whole(&job);
            }
            job.groups = rest != 0 && done == 0 ? p->out_c / 4 : 0;
            job.w += start + words + 4;
            job.out += rest;
        }
        if (p->out_c < 4) {
            memcpy(o, few, (size_t)p->out_c * 2);
        }
        if (!relu && (p->lo > INT16_MIN || p->hi < INT16_MAX)) {
            ge_dsp_wide_clamp(o, p->out_c, p->lo, p->hi);
        }
    }
}

#endif
