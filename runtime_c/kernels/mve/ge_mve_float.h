/* Products of float32 for Helium: eight channels of two pixels at a time.
 *
 * Each output is one chain of additions: it begins with the bias, and for each k the rounded product is added and the
 * sum rounded. Lanes are channels, and inputs are scalars in core registers: two k take 2 loads of inputs, 4 of
 * weights, 8 VMUL and 8 VADD, which is 32 products in 22 instructions.
 *
 * Vector arithmetic flushes subnormal floats, scalar arithmetic does not. Where every number is 0 or at least 2^-50 in
 * magnitude none occur: a product is 0 or at least 2^-100, and when rounded a multiple of 2^-123, and so are all sums
 * of products. Weights and biases are checked when the bundle is made, inputs as they are read, and pixels with smaller
 * inputs are computed with scalar arithmetic.
 *
 *   q0 q1 | q2 q3  sums of pixel 0, 1   q4 q5 weights, then the limits   q6 q7 products
 *   r0  the stream   r1 r2  inputs   r3-r6  two of each, then limits and outputs   r12  the job
 */
#ifndef GE_MVE_FLOAT_H
#define GE_MVE_FLOAT_H

#include "ge.h"
#include "ge_float.h"
#include "ge_params.h"

#if !defined(__ARM_FEATURE_MVE) || !(__ARM_FEATURE_MVE & 2)
#error                                                                                                                 \
    "the float32 kernels of this bundle need Helium with float: compile with -mcpu=cortex-m55 -mfloat-abi=hard, or make the bundle for your core: glowembed compile --target, or --isa portable"
#endif

typedef struct {
    const float *x[2];   /* 0: inputs of the pixels, rounded up to whole turns */
    float *out[2];       /* 8: where the outputs go */
    const float *stream; /* 16: for each eight channels: biases, then the weights of each k */
    int32_t groups;      /* 20: of eight channels */
    int32_t turns;       /* 24: of four k each */
    float lo, hi;        /* 28, 32 */
} ge_mve_float_job;

/* clang-format off */

#define GE_MVE_FLOAT_TWO \
    "ldrd r3, r4, [r1], #8\n" \
    "vldrw.32 q4, [r0], #16\n" \
    "ldrd r5, r6, [r2], #8\n" \
    "vmul.f32 q6, q4, r3\n" \
    "vldrw.32 q5, [r0], #16\n" \
    "vmul.f32 q7, q4, r5\n" \
    "vadd.f32 q0, q0, q6\n" \
    "vmul.f32 q6, q5, r3\n" \
    "vadd.f32 q2, q2, q7\n" \
    "vmul.f32 q7, q5, r5\n" \
    "vldrw.32 q4, [r0], #16\n" \
    "vadd.f32 q1, q1, q6\n" \
    "vmul.f32 q6, q4, r4\n" \
    "vadd.f32 q3, q3, q7\n" \
    "vmul.f32 q7, q4, r6\n" \
    "vldrw.32 q5, [r0], #16\n" \
    "vadd.f32 q0, q0, q6\n" \
    "vmul.f32 q6, q5, r4\n" \
    "vadd.f32 q2, q2, q7\n" \
    "vmul.f32 q7, q5, r6\n" \
    "vadd.f32 q1, q1, q6\n" \
    "vadd.f32 q3, q3, q7\n"

/* Replaces lanes below the limit in r3 by `lo` and lanes above the limit in r4 by `hi`; NaN stays. */
#define GE_MVE_FLOAT_CLAMP(q, lo, hi) \
    "vcmp.f32 lt, " q ", r3\n" \
    "vpsel " q ", " lo ", " q "\n" \
    "vcmp.f32 gt, " q ", r4\n" \
    "vpsel " q ", " hi ", " q "\n"

__attribute__((unused, noinline)) static void ge_mve_float_products(ge_mve_float_job *job) {
    register ge_mve_float_job *at __asm__("r12") = job; /* without optimization gcc finds no free register */
    __asm__ volatile(
        "ldr r0, [r12, #16]\n"
        "1:\n"
        "ldr r3, [r12, #24]\n"
        "ldrd r1, r2, [r12]\n"
        "vldrw.32 q0, [r0], #16\n"
        "vldrw.32 q1, [r0], #16\n"
        "vmov q2, q0\n"
        "vmov q3, q1\n"
        "dls lr, r3\n"
        "2:\n"
        GE_MVE_FLOAT_TWO
        GE_MVE_FLOAT_TWO
        "le lr, 2b\n"
        "ldrd r3, r4, [r12, #28]\n"
        "vdup.32 q4, r3\n"
        "vdup.32 q5, r4\n"
        "ldrd r5, r6, [r12, #8]\n"
        GE_MVE_FLOAT_CLAMP("q0", "q4", "q5")
        "vstrw.32 q0, [r5], #16\n"
        GE_MVE_FLOAT_CLAMP("q1", "q4", "q5")
        "vstrw.32 q1, [r5], #16\n"
        GE_MVE_FLOAT_CLAMP("q2", "q4", "q5")
        "vstrw.32 q2, [r6], #16\n"
        GE_MVE_FLOAT_CLAMP("q3", "q4", "q5")
        "vstrw.32 q3, [r6], #16\n"
        "strd r5, r6, [r12, #8]\n"
        "ldr r3, [r12, #20]\n"
        "subs r3, r3, #1\n"
        "str r3, [r12, #20]\n"
        "bne.w 1b\n"
        : "+r"(at)
        :
        : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
}

/* clang-format on */

/* Returns the least magnitude of `count` > 0 numbers, or `least` if that is smaller, as twice the bits less 1, so that
 * zeros are the largest. */
static inline uint32_t ge_mve_float_least(const float *x, int32_t count, uint32_t least) {
    __asm__ volatile("mvn r3, #0\n"
                     "vmov.i32 q2, #2\n"
                     "wlstp.32 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrw.32 q0, [%[x]], #16\n"
                     "vmlas.s32 q0, q2, r3\n"
                     "vminv.u32 %[least], q0\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [x] "+&r"(x), [least] "+&r"(least)
                     : [count] "r"(count)
                     : "r3", "lr", "q0", "q2", "memory");
    return least;
}

/* Copies `count` > 0 numbers and returns the same as ge_mve_float_least. */
static inline uint32_t ge_mve_float_copy(float *to, const float *x, int32_t count, uint32_t least) {
    __asm__ volatile("mvn r3, #0\n"
                     "vmov.i32 q2, #2\n"
                     "wlstp.32 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrw.32 q0, [%[x]], #16\n"
                     "vstrw.32 q0, [%[to]], #16\n"
                     "vmlas.s32 q0, q2, r3\n"
                     "vminv.u32 %[least], q0\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [to] "+&r"(to), [x] "+&r"(x), [least] "+&r"(least)
                     : [count] "r"(count)
                     : "r3", "lr", "q0", "q2", "memory");
    return least;
}

/* Writes `count` zeros. */
static inline void ge_mve_float_zeros(float *to, int32_t count) {
    __asm__ volatile("vmov.i32 q0, #0\n"
                     "wlstp.32 lr, %[count], 2f\n"
                     "1:\n"
                     "vstrw.32 q0, [%[to]], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [to] "+&r"(to)
                     : [count] "r"(count)
                     : "lr", "q0", "memory");
}

#define GE_MVE_FLOAT_NONE 0xFFFFFFFFu

/* Returns whether the least number is below 2^-50 and not 0. */
static inline int32_t ge_mve_float_tiny(uint32_t least) {
    return least < 0x4D000000u - 1u;
}

/* Computes the same as ge_mve_float_products with scalar arithmetic, for any numbers. */
__attribute__((unused, noinline)) static void ge_mve_float_singly(const ge_mve_float_job *job) {
    const float *w = job->stream;
    for (int32_t c = 0; c < 8 * job->groups; c += 8) {
        for (int32_t i = 0; i < 8; i++) {
            for (int32_t pixel = 0; pixel < 2; pixel++) {
                float sum = w[i];
                for (int32_t k = 0; k < 4 * job->turns; k++) {
                    sum += job->x[pixel][k] * w[8 + 8 * k + i];
                }
                job->out[pixel][c + i] = ge_clamp_f32(sum, job->lo, job->hi);
            }
        }
        w += 8 + 32 * job->turns;
    }
}

/* Computes `groups` groups of eight channels of two pixels, and advances the addresses of the outputs. */
static inline void ge_mve_float_groups(ge_mve_float_job *job, int32_t groups, uint32_t least) {
    job->groups = groups;
    if (groups > 0 && ge_mve_float_tiny(least)) {
        ge_mve_float_singly(job);
        job->out[0] += 8 * groups;
        job->out[1] += 8 * groups;
    } else if (groups > 0) {
        ge_mve_float_products(job);
    }
}

/* Computes all channels of two pixels. `least` is that of their inputs. The last one to seven channels go through a
 * buffer. */
__attribute__((unused, noinline)) static void ge_mve_float_run(ge_mve_float_job *job, int32_t channels,
                                                               uint32_t least) {
    const int32_t rest = channels % 8;
    ge_mve_float_groups(job, channels / 8, least);
    if (rest > 0) {
        float last[2][8];
        float *const out[2] = {job->out[0], job->out[1]};
        const float *const stream = job->stream;
        job->stream += channels / 8 * (8 + 32 * job->turns);
        job->out[0] = last[0];
        job->out[1] = last[1];
        ge_mve_float_groups(job, 1, least);
        job->stream = stream;
        for (int32_t i = 0; i < 2; i++) {
            memcpy(out[i], last[i], (size_t)rest * sizeof last[i][0]);
        }
    }
}

#endif
