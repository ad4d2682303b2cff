/* Products of float32 for cores with a single-precision FPU: four channels of five pixels at a time.
 *
 * Each output is one chain of additions: it begins with the bias, and for each k the rounded product is added and the
 * sum rounded. The FPU of a Cortex-M4 takes one cycle for a VMUL and one for a VADD, and one more if the next
 * instruction needs the result; so three products are in flight at a time. VMLA and VFMA take three.
 *
 * s0-s19 sums, four channels of each pixel; s20-s23 weights; s24-s28 pixels; s29-s31 products; r0 weights, r1 pixels.
 * Cost: 51 cycles for 20 products, 4 per eight such steps, 140 per 20 outputs. */
#ifndef GE_ISA_DSP_FLOAT_H
#define GE_ISA_DSP_FLOAT_H

#include "ge.h"
#include "ge_float.h"
#include "ge_params.h"

#if !defined(__ARM_FP) || !(__ARM_FP & 4)
#error                                                                                                                 \
    "the float32 kernels of this bundle need a single-precision FPU: compile with -mfpu and without -mfloat-abi=soft, or make the bundle for your core: glowembed compile --target, or --isa portable"
#endif

#pragma GCC diagnostic ignored "-Woverlength-strings"

typedef struct {
    const float *x;     /* 0: columns of five pixels interleaved */
    const float *w;     /* 4: for four channels: start values, weights of each k */
    float *const *out;  /* 8: addresses of the channels of the five pixels */
    int32_t turns;      /* 12: of four k each */
    int32_t channel;    /* 16: offset of the first channel from the addresses in `out`, bytes */
    int32_t relu;       /* 20: 1: negative outputs become 0 */
    uint32_t unbounded; /* 24: becomes 1 where an output is not finite */
    int32_t groups;     /* 28: of four channels, counts down to 0 */
} ge_dsp_float_job;

/* clang-format off */

#define GE_DSP_FLOAT_MUL(t, w, x) "    vmul.f32 s" #t ", s" #w ", s" #x "\n"
#define GE_DSP_FLOAT_ADD(s, t) "    vadd.f32 s" #s ", s" #s ", s" #t "\n"

/* Adds the products of one k. */
#define GE_DSP_FLOAT_STEP \
    "    vldm r1!, {s24-s28}\n" \
    "    vldm r0!, {s20-s23}\n" \
    GE_DSP_FLOAT_MUL(29, 20, 24) GE_DSP_FLOAT_MUL(30, 21, 24) GE_DSP_FLOAT_MUL(31, 22, 24) \
    GE_DSP_FLOAT_ADD(0, 29) GE_DSP_FLOAT_ADD(1, 30) GE_DSP_FLOAT_ADD(2, 31) \
    GE_DSP_FLOAT_MUL(29, 23, 24) GE_DSP_FLOAT_MUL(30, 20, 25) GE_DSP_FLOAT_MUL(31, 21, 25) \
    GE_DSP_FLOAT_ADD(3, 29) GE_DSP_FLOAT_ADD(4, 30) GE_DSP_FLOAT_ADD(5, 31) \
    GE_DSP_FLOAT_MUL(29, 22, 25) GE_DSP_FLOAT_MUL(30, 23, 25) GE_DSP_FLOAT_MUL(31, 20, 26) \
    GE_DSP_FLOAT_ADD(6, 29) GE_DSP_FLOAT_ADD(7, 30) GE_DSP_FLOAT_ADD(8, 31) \
    GE_DSP_FLOAT_MUL(29, 21, 26) GE_DSP_FLOAT_MUL(30, 22, 26) GE_DSP_FLOAT_MUL(31, 23, 26) \
    GE_DSP_FLOAT_ADD(9, 29) GE_DSP_FLOAT_ADD(10, 30) GE_DSP_FLOAT_ADD(11, 31) \
    GE_DSP_FLOAT_MUL(29, 20, 27) GE_DSP_FLOAT_MUL(30, 21, 27) GE_DSP_FLOAT_MUL(31, 22, 27) \
    GE_DSP_FLOAT_ADD(12, 29) GE_DSP_FLOAT_ADD(13, 30) GE_DSP_FLOAT_ADD(14, 31) \
    GE_DSP_FLOAT_MUL(29, 23, 27) GE_DSP_FLOAT_MUL(30, 20, 28) GE_DSP_FLOAT_MUL(31, 21, 28) \
    GE_DSP_FLOAT_ADD(15, 29) GE_DSP_FLOAT_ADD(16, 30) GE_DSP_FLOAT_ADD(17, 31) \
    GE_DSP_FLOAT_MUL(29, 22, 28) GE_DSP_FLOAT_MUL(30, 23, 28) \
    GE_DSP_FLOAT_ADD(18, 29) GE_DSP_FLOAT_ADD(19, 30)

/* Stores the four channels of pixel `p`, from register `a` on. */
#define GE_DSP_FLOAT_PLAIN(p, a, b, c, d) \
    "    ldr.w r5, [r4, #4*" #p "]\n" \
    "    add.w r5, r5, r3\n" \
    "    vstm r5, {s" #a "-s" #d "}\n"

#define GE_DSP_FLOAT_RELU(p, a, b, c, d) \
    "    ldr.w r5, [r4, #4*" #p "]\n" \
    "    vmov r6, r8, s" #a ", s" #b "\n" \
    "    vmov r9, r10, s" #c ", s" #d "\n" \
    "    bic.w r6, r6, r6, asr #31\n" \
    "    bic.w r8, r8, r8, asr #31\n" \
    "    bic.w r9, r9, r9, asr #31\n" \
    "    bic.w r10, r10, r10, asr #31\n" \
    "    add.w r5, r5, r3\n" \
    "    stm.w r5, {r6, r8, r9, r10}\n"

#define GE_DSP_FLOAT_REGISTERS \
    "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15", "s16", "s17", \
    "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26", "s27", "s28", "s29", "s30", "s31"

/* Computes all groups of four channels of five pixels. The sum of all outputs is finite if each of them is. */
__attribute__((unused, noinline)) static void ge_dsp_float_products(ge_dsp_float_job *job) {
    register ge_dsp_float_job *r12 __asm__("r12") = job;
    __asm__ volatile(
        "    ldr.w r0, [r12, #4]\n"
        "5:\n"
        "    ldr.w r1, [r12, #0]\n"
        "    ldr.w r2, [r12, #12]\n"
        "    vldm r0!, {s0-s3}\n"
        "    vmov.f32 s4, s0\n"
        "    vmov.f32 s5, s1\n"
        "    vmov.f32 s6, s2\n"
        "    vmov.f32 s7, s3\n"
        "    vmov.f32 s8, s0\n"
        "    vmov.f32 s9, s1\n"
        "    vmov.f32 s10, s2\n"
        "    vmov.f32 s11, s3\n"
        "    vmov.f32 s12, s0\n"
        "    vmov.f32 s13, s1\n"
        "    vmov.f32 s14, s2\n"
        "    vmov.f32 s15, s3\n"
        "    vmov.f32 s16, s0\n"
        "    vmov.f32 s17, s1\n"
        "    vmov.f32 s18, s2\n"
        "    vmov.f32 s19, s3\n"
        "    add.w r2, r2, #1\n"
        "    lsrs.w r2, r2, #1\n"
        "    bcc.w 6f\n" /* an odd number of iterations: the first one enters in the middle of a pair */
        "    .balign 4\n"
        "1:\n"
        GE_DSP_FLOAT_STEP
        GE_DSP_FLOAT_STEP
        GE_DSP_FLOAT_STEP
        GE_DSP_FLOAT_STEP
        "6:\n"
        GE_DSP_FLOAT_STEP
        GE_DSP_FLOAT_STEP
        GE_DSP_FLOAT_STEP
        "    subs.w r2, r2, #1\n"
        GE_DSP_FLOAT_STEP
        "    bne.w 1b\n"
        "    vadd.f32 s29, s0, s1\n"
        "    vadd.f32 s30, s2, s3\n"
        "    vadd.f32 s31, s4, s5\n"
        "    vadd.f32 s29, s29, s6\n"
        "    vadd.f32 s30, s30, s7\n"
        "    vadd.f32 s31, s31, s8\n"
        "    vadd.f32 s29, s29, s9\n"
        "    vadd.f32 s30, s30, s10\n"
        "    vadd.f32 s31, s31, s11\n"
        "    vadd.f32 s29, s29, s12\n"
        "    vadd.f32 s30, s30, s13\n"
        "    vadd.f32 s31, s31, s14\n"
        "    vadd.f32 s29, s29, s15\n"
        "    vadd.f32 s30, s30, s16\n"
        "    vadd.f32 s31, s31, s17\n"
        "    vadd.f32 s29, s29, s18\n"
        "    vadd.f32 s30, s30, s19\n"
        "    vadd.f32 s29, s29, s30\n"
        "    ldr.w r3, [r12, #16]\n"
        "    ldr.w r4, [r12, #8]\n"
        "    vadd.f32 s29, s29, s31\n"
        "    ldr.w r2, [r12, #20]\n"
        "    vmov r6, s29\n"
        "    lsl.w r6, r6, #1\n"
        "    cmp.w r6, #0xff000000\n"
        "    bhs.w 4f\n"
        "    cmp.w r2, #0\n"
        "    beq.w 2f\n"
        GE_DSP_FLOAT_RELU(0, 0, 1, 2, 3)
        GE_DSP_FLOAT_RELU(1, 4, 5, 6, 7)
        GE_DSP_FLOAT_RELU(2, 8, 9, 10, 11)
        GE_DSP_FLOAT_RELU(3, 12, 13, 14, 15)
        GE_DSP_FLOAT_RELU(4, 16, 17, 18, 19)
        "    b.w 3f\n"
        "4:\n"
        "    mov.w r6, #1\n"
        "    str.w r6, [r12, #24]\n"
        "2:\n"
        GE_DSP_FLOAT_PLAIN(0, 0, 1, 2, 3)
        GE_DSP_FLOAT_PLAIN(1, 4, 5, 6, 7)
        GE_DSP_FLOAT_PLAIN(2, 8, 9, 10, 11)
        GE_DSP_FLOAT_PLAIN(3, 12, 13, 14, 15)
        GE_DSP_FLOAT_PLAIN(4, 16, 17, 18, 19)
        "3:\n"
        "    ldr.w r6, [r12, #28]\n"
        "    add.w r3, r3, #16\n"
        "    str.w r3, [r12, #16]\n"
        "    subs.w r6, r6, #1\n"
        "    str.w r6, [r12, #28]\n"
        "    bne.w 5b\n"
        "    str.w r0, [r12, #4]\n"
        : "+r"(r12)
        :
        : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "cc", "memory", GE_DSP_FLOAT_REGISTERS);
}

/* clang-format on */

/* Clamps outputs to lo..hi. */
__attribute__((unused, noinline)) static void ge_dsp_float_clamp(float *o, int32_t count, float lo, float hi) {
    for (int32_t i = 0; i < count; i++) {
        o[i] = ge_clamp_f32(o[i], lo, hi);
    }
}

/* Returns what remains to be done for an activation: 0: nothing, for finite outputs; 1: negative ones become 0; 2: a
 * clamp. */
static inline int32_t ge_dsp_float_law(float lo, float hi) {
    const float largest = 3.40282347e+38f;
    const int32_t open = hi >= largest;
    return open && lo <= -largest ? 0 : (open && ge_bits_of(lo) == 0 ? 1 : 2);
}

#endif
