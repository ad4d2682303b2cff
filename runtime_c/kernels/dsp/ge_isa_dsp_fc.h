/* Code that the fully connected kernels of Cortex-M4, M7 and M33 share: everything except how the vector is read.
 *
 * 4 outputs are computed at a time, with two channels in a half-word (ge_isa_dsp.h explains how weights are packed and
 * why that is exact). A step is 4 k, an iteration of the loop 4 steps: r0 weights, r1 x, r2 S01, r3 B01, r4 S23, r5
 * B23, r6 r8 the int16 pairs (x0, x2) and (x1, x3), r9-r12 weights. Cost: about 40 cycles per 4 outputs in addition to
 * the steps. */
#ifndef GE_ISA_DSP_FC_H
#define GE_ISA_DSP_FC_H

#include "ge.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const void *x;
    int32_t groups;        /* groups of four outputs */
    const uint32_t *w;     /* for each group: S01, B01, S23, B23, two words for each pair of k, requantization words */
    uint32_t weight_bytes; /* of one group */
    uint32_t skip;         /* bytes of the unrolled loop that its first iteration skips */
    int32_t zero_point;
    int32_t down; /* 8 - (32 - shift) */
    int8_t *out;
} ge_dsp_fc_job;

#define GE_DSP_FC_UNROLL 4

/* To be used in this order: BEGIN, WEIGHTS, PRODUCTS, END. The kernel expands inputs into r6 and r8 in between; its
 * operand `law` is the number of the law. */
#define GE_DSP_FC_BEGIN(function, law)                                                                                 \
    GE_DSP_ENTER(function, law, "r1-r6, r8, r9")                                                                       \
    "    adr r1, 3f\n"                                                                                                 \
    "    ldr.w r2, [sp, #4*4]\n"                                                                                       \
    "    add r1, r1, r2\n"                                                                                             \
    "    orr r1, r1, #1\n"                                                                                             \
    "    str.w r1, [sp, #4*4]\n"                                                                                       \
    "    ldr.w r0, [sp, #4*2]\n"                                                                                       \
    "    b 1f\n"                                                                                                       \
    "    .balign 4\n"                                                                                                  \
    "1:\n" /* four outputs */                                                                                          \
    "    ldr.w r6, [sp, #4*3]\n"                                                                                       \
    "    ldr.w r12, [sp, #4*4]\n"                                                                                      \
    "    ldr.w r1, [sp, #4*0]\n"                                                                                       \
    "    ldr.w r3, [r0, #4]\n"                                                                                         \
    "    ldr.w r4, [r0, #8]\n"                                                                                         \
    "    ldr.w r5, [r0, #12]\n"                                                                                        \
    "    ldr.w r2, [r0], #16\n"                                                                                        \
    "    add r6, r6, r0\n"                                                                                             \
    "    str.w r6, [sp, #4*8]\n"                                                                                       \
    "    bx r12\n"                                                                                                     \
    "    .balign 4\n"                                                                                                  \
    "3:\n"                                                                                                             \
    "    .rept 4\n"

#define GE_DSP_FC_WEIGHTS                                                                                              \
    "    ldr.w r10, [r0, #4]\n"                                                                                        \
    "    ldr.w r11, [r0, #8]\n"                                                                                        \
    "    ldr.w r12, [r0, #12]\n"                                                                                       \
    "    ldr.w r9, [r0], #16\n"

#define GE_DSP_FC_PRODUCTS                                                                                             \
    "    smlad r2, r9, r6, r2\n"                                                                                       \
    "    smlad r4, r10, r6, r4\n"                                                                                      \
    "    smlad r2, r11, r8, r2\n"                                                                                      \
    "    smlad r4, r12, r8, r4\n"                                                                                      \
    "    sxtb16 r9, r9\n"                                                                                              \
    "    sxtb16 r10, r10\n"                                                                                            \
    "    sxtb16 r11, r11\n"                                                                                            \
    "    sxtb16 r12, r12\n"                                                                                            \
    "    smlad r3, r9, r6, r3\n"                                                                                       \
    "    smlad r5, r10, r6, r5\n"                                                                                      \
    "    smlad r3, r11, r8, r3\n"                                                                                      \
    "    smlad r5, r12, r8, r5\n"

/* clang-format off */

/* The end of the loop. */
#define GE_DSP_FC_LOOP \
    "    .endr\n"                                                                                                      \
    "    ldr.w r12, [sp, #4*8]\n"                                                                                               \
    "    cmp r0, r12\n"                                                                                                \
    "    bne.w 3b\n"

/* Separates the sums from S and B, shifted up for the requantization. */
#define GE_DSP_FC_SPLIT \
    "    ldr.w r12, [sp, #4*6]\n"                                                                                               \
    "    sub r2, r2, r3\n"                                                                                             \
    "    sub r4, r4, r5\n"                                                                                             \
    "    asr r2, r2, r12\n"                                                                                            \
    "    asr r4, r4, r12\n"                                                                                            \
    "    rsb r12, r12, #8\n"                                                                                           \
    "    lsl r3, r3, r12\n"                                                                                            \
    "    lsl r5, r5, r12\n"

/* Requantizes these sums to outputs and advances to the next four. */
#define GE_DSP_FC_OUTPUTS(law) \
    "    .if %c[law] == 0\n"                                                                                           \
    "    ldr.w r9, [r0, #4]\n"                                                                                         \
    "    ldr.w r10, [r0, #8]\n"                                                                                        \
    "    ldr.w r11, [r0, #12]\n"                                                                                       \
    "    ldr.w r8, [r0], #16\n"                                                                                        \
    "    ldr.w r12, [sp, #4*5]\n"                                                                                               \
    "    smmlar r2, r2, r8, r12\n"                                                                                     \
    "    smmlar r3, r3, r9, r12\n"                                                                                     \
    "    smmlar r4, r4, r10, r12\n"                                                                                    \
    "    smmlar r5, r5, r11, r12\n"                                                                                    \
    "    .endif\n"                                                                                                     \
    GE_DSP_LAW_ONE(law, "r0", "r2", "r8", "r9", "r10")                                                                 \
    GE_DSP_LAW_ONE(law, "r0", "r3", "r8", "r9", "r10")                                                                 \
    GE_DSP_LAW_ONE(law, "r0", "r4", "r8", "r9", "r10")                                                                 \
    GE_DSP_LAW_ONE(law, "r0", "r5", "r8", "r9", "r10")                                                                 \
    GE_DSP_LAW_SELDOM(law, "r0", "r9", "r10")                                                                          \
    "    ldr.w r6, [sp, #4*7]\n"                                                                                                \
    "    ldr.w r12, [sp, #4*1]\n"                                                                                               \
    "    ssat r2, #8, r2\n"                                                                                            \
    "    ssat r3, #8, r3\n"                                                                                            \
    "    ssat r4, #8, r4\n"                                                                                            \
    "    ssat r5, #8, r5\n"                                                                                            \
    "    strb.w r3, [r6, #1]\n"                                                                                        \
    "    strb.w r4, [r6, #2]\n"                                                                                        \
    "    strb.w r5, [r6, #3]\n"                                                                                        \
    "    strb r2, [r6], #4\n"                                                                                        \
    "    subs r12, r12, #1\n"                                                                                          \
    "    str.w r6, [sp, #4*7]\n"                                                                                                \
    "    str.w r12, [sp, #4*1]\n"                                                                                               \
    "    bne.w 1b\n" \
    GE_DSP_LEAVE

#define GE_DSP_FC_END(law) GE_DSP_FC_LOOP GE_DSP_FC_SPLIT GE_DSP_FC_OUTPUTS(law)

/* clang-format on */

#define GE_DSP_FC_CHANGES(law)                                                                                         \
    "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "cc", "memory" GE_DSP_LAW_CHANGES(law)

/* Computes all outputs of one vector for one law; `step` is the bytes of a step in the loop of `outputs`. */
__attribute__((always_inline)) static inline void ge_dsp_fc_vector(const ge_fc_params *p, const void *x,
                                                                   const uint32_t *stream, int8_t *o, uint32_t step,
                                                                   int32_t law,
                                                                   void (*outputs)(const ge_dsp_fc_job *)) {
    const int32_t steps = (ge_dsp_words(p->in_c) + 1) / 2;
    const int32_t turns = steps % GE_DSP_FC_UNROLL;
    const uint32_t skip = turns == 0 ? 0u : (uint32_t)(GE_DSP_FC_UNROLL - turns) * step;
    const int32_t rest = p->out_c & 3;
    int8_t few[4] = {0};
    int8_t *const to = p->out_c < 4 ? few : o;
    ge_dsp_fc_job job = {
        x, p->out_c / 4, stream, (uint32_t)steps * 16u, skip, p->out_zero_point, law == 0 ? p->shift - 24 : 7, to};
    if (rest != 0) {
        job.groups = 1;
        outputs(&job);
        job.w += steps * 4 + GE_DSP_LAW_WORDS(law);
        job.groups = p->out_c / 4;
        job.out = to + rest;
    }
    if (job.groups > 0) {
        outputs(&job);
    }
    if (p->out_c < 4) {
        memcpy(o, few, (size_t)p->out_c);
    }
    if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
        ge_dsp_clamp(o, p->out_c, p->lo, p->hi);
    }
}

#endif
