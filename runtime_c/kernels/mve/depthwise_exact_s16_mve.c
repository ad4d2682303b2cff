/* Depthwise convolution of int16 [H, W, C] with weights of int16 whose sums need up to 39 bits, any window: Helium, eight channels of
 * one output at a time.
 *
 * A weight is 256 * h + l with l >= 0, so two sums of 32 bits, A of the products with h and B of those with l, are
 * exact. The whole sum is 256 * A + B = 2^k * T + r, where T = (A << (8 - k)) + (B >> k) fits 32 bits and r has k bits.
 * Its product with a multiplier M is T * (M << k) + r * M, where both factors are words; only its upper word is needed,
 * which takes VMULH, VMUL and a carry.
 *
 * Inputs have no zero point, so taps in padding add nothing. The addresses of the taps inside the input lie in scratch.
 * Cost: 16 instructions for the 8 products of a tap, and 60 for eight outputs.
 *
 *   r0 taps, r3 inputs and r1 weights of one, r4 bytes of the channels before, r5 the block, r6 weights of the block, r8 outputs,
 *   r9 channels; q0 q1 even and odd sums A, q2 q3 sums B, q4 inputs, q5 q6 weights, q7 products */
#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"
#include "ge_thumb_pool.h"

/* A tap inside the input. */
typedef struct {
    const int16_t *x;
    int32_t weights; /* bytes from the weights of the first tap to those of this one */
} depthwise_exact_s16_mve_tap;

/* Job of the loop, in the order of the offsets in the assembly. */
typedef struct {
    const depthwise_exact_s16_mve_tap *taps;
    int32_t count;
    int32_t channel;     /* 8: bytes of the channels before */
    const int8_t *block; /* 12: A, B, M and M << k of even and odd channels, weights of the taps */
    int16_t *out;        /* 16 */
    int32_t channels;    /* 20: 1..8 */
    int32_t lo, hi;      /* 24 */
    int32_t zero_point;  /* 32 */
    int32_t shift;       /* 36: amount for VRSHL of the upper word: negative */
    int32_t left, right; /* 40: 8 - k and -k */
    int32_t mask;        /* 48: 2^k - 1 */
} depthwise_exact_s16_mve_job;

/* clang-format off */

/* Requantizes sums A in `a` and B in `b`, whose multipliers M lie at `at`. */
#define DEPTHWISE_EXACT_S16_MVE_SCALE(a, b, at) \
    "vmov q4, " b "\n" \
    "vshl.s32 " a ", r0\n" \
    "vshl.s32 q4, r1\n" \
    "vdup.32 q5, r3\n" \
    "vadd.i32 " a ", " a ", q4\n" \
    "vldrw.u32 q6, [r5, #" at "]\n" \
    "vand " b ", " b ", q5\n" \
    "vldrw.u32 q7, [r5, #32+" at "]\n" \
    "vmul.i32 " b ", " b ", q6\n" \
    "vmul.i32 q4, " a ", q7\n" \
    "vmulh.s32 " a ", " a ", q7\n" \
    "vadd.i32 " b ", " b ", q4\n" \
    "vcmp.u32 hi, q4, " b "\n" \
    "vpst\n" \
    "vaddt.i32 " a ", " a ", lr\n" \
    "vrshl.s32 " a ", r4\n" \
    "vadd.i32 " a ", " a ", r6\n"

static GE_NOINLINE void depthwise_exact_s16_mve_eight(const depthwise_exact_s16_mve_job *job) {
    __asm__ volatile(
        "mov r12, %[job]\n"
        "ldrd r0, lr, [r12]\n"
        "ldrd r4, r5, [r12, #8]\n"
        "ldrd r8, r9, [r12, #16]\n"
        "vldrw.u32 q0, [r5]\n"
        "vldrw.u32 q1, [r5, #16]\n"
        "vldrw.u32 q2, [r5, #32]\n"
        "vldrw.u32 q3, [r5, #48]\n"
        "vctp.16 r9\n"
        "add r6, r5, #128\n"
        "wls lr, lr, 2f\n"
        "1:\n"
        "ldrd r3, r1, [r0], #8\n"
        "add r3, r3, r4\n"
        "add r1, r1, r6\n"
        "vpst\n"
        "vldrht.u16 q4, [r3]\n"
        "vldrb.s16 q5, [r1]\n"
        "vmullb.s16 q7, q4, q5\n"
        "vldrb.u16 q6, [r1, #8]\n"
        "vadd.i32 q0, q0, q7\n"
        "vmullt.s16 q7, q4, q5\n"
        "vadd.i32 q1, q1, q7\n"
        "vmullb.s16 q7, q4, q6\n"
        "vadd.i32 q2, q2, q7\n"
        "vmullt.s16 q7, q4, q6\n"
        "vadd.i32 q3, q3, q7\n"
        "le lr, 1b\n"
        "2:\n"
        "ldrd r6, r4, [r12, #32]\n"
        "ldrd r0, r1, [r12, #40]\n"
        "ldr r3, [r12, #48]\n"
        "mov lr, #1\n"
        DEPTHWISE_EXACT_S16_MVE_SCALE("q0", "q2", "64")
        DEPTHWISE_EXACT_S16_MVE_SCALE("q1", "q3", "80")
        "vqmovnb.s32 q0, q0\n"
        "vqmovnt.s32 q0, q1\n"
        "ldrd r0, r1, [r12, #24]\n"
        "vdup.16 q2, r0\n"
        "vdup.16 q3, r1\n"
        "vmax.s16 q0, q0, q2\n"
        "vmin.s16 q0, q0, q3\n"
        "vctp.16 r9\n"
        "vpst\n"
        "vstrht.16 q0, [r8]\n"
        :
        : [job] "r"(job)
        : "r0", "r1", "r3", "r4", "r5", "r6", "r8", "r9", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc",
          "memory");
}

/* clang-format on */

static void ge_depthwise_exact_s16_mve(const ge_conv2d_s16_params *p, const ge_rows *x, const int8_t *stream,
                                       const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    depthwise_exact_s16_mve_tap *const taps = (depthwise_exact_s16_mve_tap *)scratch;
    const int32_t size = 128 + 16 * p->kernel_h * p->kernel_w;
    const int32_t k = stream[0];
    depthwise_exact_s16_mve_job job = {
        taps,  0,  0,           NULL, NULL, 0, p->lo, p->hi, p->out_zero_point, p->shift < 33 ? -1 : 32 - p->shift,
        8 - k, -k, (1 << k) - 1};
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t top = y * p->stride_h - p->pad_top;
        const ge_thumb_span rows = ge_thumb_span_of(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        job.out = (int16_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int32_t left = ox * p->stride_w - p->pad_left;
            const ge_thumb_span columns = ge_thumb_span_of(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            job.count = 0;
            for (int32_t ky = rows.first; ky < rows.last; ky++) {
                const int16_t *const row = (const int16_t *)ge_row(x, top + ky * p->dilation_h) + left * p->in_c;
                for (int32_t kx = columns.first; kx < columns.last; kx++) {
                    taps[job.count].x = row + kx * p->dilation_w * p->in_c;
                    taps[job.count].weights = 16 * (ky * p->kernel_w + kx);
                    job.count++;
                }
            }
            job.block = stream + 16;
            for (int32_t c = 0; c < p->out_c; c += 8) {
                job.channel = 2 * c;
                job.channels = p->out_c - c < 8 ? p->out_c - c : 8;
                depthwise_exact_s16_mve_eight(&job);
                job.block += size;
                job.out += job.channels;
            }
        }
    }
}
