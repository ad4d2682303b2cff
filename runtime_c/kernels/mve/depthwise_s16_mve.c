/* Depthwise convolution of int16 [H, W, C] with weights of int8 or int16, any window: Helium, eight channels of one output at a
 * time.
 *
 * Inputs have no zero point, so taps in padding add nothing. The addresses of the taps inside the input lie in scratch;
 * a tap takes a load of eight inputs, one of weights, VMULLB and VMULLT for even and odd channels, and two additions to
 * sums of 32 bits: 10 instructions for 8 products. Requantization has shift 32.
 *
 *   r0 taps, r3 inputs and r1 weights of one, r4 bytes of the channels before, r5 weights of the block; q0 q1 even and odd
 *   sums, q2 inputs, q3 weights, q4 products */
#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"
#include "ge_thumb_pool.h"

/* clang-format off */
#define DEPTHWISE_S16_MVE_BYTES 1 /* bytes of a weight: 1 or 2 */
#define DEPTHWISE_S16_MVE_LOAD DEPTHWISE_S16_MVE_SIGNED_BYTES /* or DEPTHWISE_S16_MVE_HALVES */
#define DEPTHWISE_S16_MVE_SIGNED_BYTES "vldrb.s16 q3, [r1]\n"
#define DEPTHWISE_S16_MVE_HALVES "vldrh.u16 q3, [r1]\n"
/* clang-format on */

/* A tap inside the input. */
typedef struct {
    const int16_t *x;
    int32_t weights; /* bytes from the weights of the first tap to those of this one */
} depthwise_s16_mve_tap;

/* Job of the loop, in the order of the offsets in the assembly. */
typedef struct {
    const depthwise_s16_mve_tap *taps;
    int32_t count;
    int32_t channel;     /* 8: bytes of the channels before */
    const int8_t *block; /* 12: biases and multipliers of even and odd channels, weights of the taps */
    int16_t *out;        /* 16 */
    int32_t channels;    /* 20: 1..8 */
    int32_t lo, hi;      /* 24 */
    int32_t zero_point;  /* 32 */
} depthwise_s16_mve_job;

static GE_NOINLINE void depthwise_s16_mve_eight(const depthwise_s16_mve_job *job) {
    __asm__ volatile("mov r12, %[job]\n"
                     "ldrd r0, r6, [r12]\n"
                     "ldrd r4, r5, [r12, #8]\n"
                     "ldrd r8, r9, [r12, #16]\n"
                     "vldrw.u32 q0, [r5]\n"
                     "vldrw.u32 q1, [r5, #16]\n"
                     "vctp.16 r9\n"
                     "add r5, r5, #64\n"
                     "wls lr, r6, 2f\n"
                     "1:\n"
                     "ldrd r3, r1, [r0], #8\n"
                     "add r3, r3, r4\n"
                     "add r1, r1, r5\n"
                     "vpst\n"
                     "vldrht.u16 q2, [r3]\n" DEPTHWISE_S16_MVE_LOAD "vmullb.s16 q4, q2, q3\n"
                     "vadd.i32 q0, q0, q4\n"
                     "vmullt.s16 q4, q2, q3\n"
                     "vadd.i32 q1, q1, q4\n"
                     "le lr, 1b\n"
                     "2:\n"
                     "vldrw.u32 q2, [r5, #-32]\n"
                     "vldrw.u32 q3, [r5, #-16]\n"
                     "vrmulh.s32 q0, q0, q2\n"
                     "vrmulh.s32 q1, q1, q3\n"
                     "ldr r6, [r12, #32]\n"
                     "ldrd r0, r1, [r12, #24]\n"
                     "vadd.i32 q0, q0, r6\n"
                     "vadd.i32 q1, q1, r6\n"
                     "vqmovnb.s32 q0, q0\n"
                     "vqmovnt.s32 q0, q1\n"
                     "vdup.16 q2, r0\n"
                     "vdup.16 q3, r1\n"
                     "vmax.s16 q0, q0, q2\n"
                     "vmin.s16 q0, q0, q3\n"
                     "vpst\n"
                     "vstrht.16 q0, [r8]\n"
                     :
                     : [job] "r"(job)
                     : "r0", "r1", "r3", "r4", "r5", "r6", "r8", "r9", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "cc",
                       "memory");
}

static void ge_depthwise_s16_mve(const ge_conv2d_s16_params *p, const ge_rows *x, const int8_t *stream,
                                 const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    depthwise_s16_mve_tap *const taps = (depthwise_s16_mve_tap *)scratch;
    const int32_t size = 64 + 8 * DEPTHWISE_S16_MVE_BYTES * p->kernel_h * p->kernel_w;
    depthwise_s16_mve_job job = {taps, 0, 0, stream, NULL, 0, p->lo, p->hi, p->out_zero_point};
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
                    taps[job.count].weights = 8 * DEPTHWISE_S16_MVE_BYTES * (ky * p->kernel_w + kx);
                    job.count++;
                }
            }
            job.block = stream;
            for (int32_t c = 0; c < p->out_c; c += 8) {
                job.channel = 2 * c;
                job.channels = p->out_c - c < 8 ? p->out_c - c : 8;
                depthwise_s16_mve_eight(&job);
                job.block += size;
                job.out += job.channels;
            }
        }
    }
}
