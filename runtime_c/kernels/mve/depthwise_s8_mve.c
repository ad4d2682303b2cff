/* Depthwise convolution of int8 [H, W, C] with as many output channels, any window, for any law: Helium.
 *
 * Lanes are channels, 16 at a time. Two taps make one int16 sum (2 * 127 * 128 fits), separately for the bottom and the
 * top bytes (VMULLB, VMULLT), which is then added to four vectors of int32: 20 vector instructions for 32 MACs. The
 * narrowing moves restore the order of the channels. Where C is not a multiple of 16, the last block begins 16 channels
 * before the end; below 16 channels, taps are copied into vectors first.
 *
 * Measured, instructions under QEMU: 3x3 25x5x64 81,110 (10.1 per output).
 *
 *   q4 q5 q6 q7  sums of channels 0 4 8 12 | 2 6 10 14 | 1 5 9 13 | 3 7 11 15
 *   q0 q1 q3     pixels, weights and products of odd channels; q2 products of even channels
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_mve.h"
#include "ge_mve_law.h"
#include "ge_mve_taps.h"
#include "ge_params.h"

typedef struct {
    int8_t lo[16];             /* 0 */
    int8_t hi[16];             /* 16 */
    int32_t zero_point;        /* 32 */
    int32_t odd;               /* 36: 1 where one tap is left after the pairs */
    const int8_t *const *taps; /* 40 */
    int32_t pairs;             /* 44: of taps */
    const int8_t *stream;      /* 48: of the first block */
    int32_t blocks;            /* 52: of 16 channels, one after another */
    int32_t step;              /* 56: bytes from the end of a pixel's blocks to the next pixel */
    int32_t pixels;            /* 60: to compute; counts down */
} depthwise_s8_mve_job;

#define DEPTHWISE_S8_MVE_ADD(sum, how, from) "vmovl" how ".s16 q1, " from "\nvadd.i32 " sum ", " sum ", q1\n"
#define DEPTHWISE_S8_MVE_SCALE(sum) GE_MVE_LAW_LOAD("r5", "r4") GE_MVE_LAW_SCALE(sum, "r4")

/* Computes all blocks of all pixels of a job; the first block is `offset` bytes past the taps. r4 taps, r5 stream, r6
 * blocks. */
static void depthwise_s8_mve_run(depthwise_s8_mve_job *job, int32_t offset, int8_t *out) {
    /* clang-format off */
    __asm__ volatile(
        "0:\n" /* a pixel */
        "ldrd r5, r6, [%[law], #48]\n"
        "1:\n" /* 16 channels */
        "ldrd r4, lr, [%[law], #40]\n"
        "vldrw.u32 q4, [r5], #16\n"
        "vldrw.u32 q5, [r5], #16\n"
        "vldrw.u32 q6, [r5], #16\n"
        "vldrw.u32 q7, [r5], #16\n"
        "wls lr, lr, 3f\n"
        "2:\n"
        "ldrd r1, r3, [r4], #8\n"
        "add r1, r1, %[offset]\n"
        "add r3, r3, %[offset]\n"
        "vldrb.8 q0, [r1]\n"
        "vldrb.8 q1, [r5], #16\n"
        "vmullb.s8 q2, q0, q1\n"
        "vmullt.s8 q0, q0, q1\n"
        "vldrb.8 q1, [r3]\n"
        "vldrb.8 q3, [r5]\n"
        "vmullt.s8 q3, q1, q3\n"
        "vadd.i16 q0, q0, q3\n"
        "vldrb.8 q3, [r5], #16\n" /* loaded again: there is no eighth vector to keep it in */
        "vmullb.s8 q1, q1, q3\n"
        "vadd.i16 q2, q2, q1\n"
        DEPTHWISE_S8_MVE_ADD("q4", "b", "q2")
        DEPTHWISE_S8_MVE_ADD("q5", "t", "q2")
        DEPTHWISE_S8_MVE_ADD("q6", "b", "q0")
        DEPTHWISE_S8_MVE_ADD("q7", "t", "q0")
        "le lr, 2b\n"
        "3:\n"
        "ldrd r1, r3, [%[law], #32]\n"
        "cbz r3, 4f\n"
        "ldr r3, [r4]\n"
        "add r3, r3, %[offset]\n"
        "vldrb.8 q0, [r3]\n"
        "vldrb.8 q1, [r5], #16\n"
        "vmullb.s8 q2, q0, q1\n"
        "vmullt.s8 q0, q0, q1\n"
        DEPTHWISE_S8_MVE_ADD("q4", "b", "q2")
        DEPTHWISE_S8_MVE_ADD("q5", "t", "q2")
        DEPTHWISE_S8_MVE_ADD("q6", "b", "q0")
        DEPTHWISE_S8_MVE_ADD("q7", "t", "q0")
        "4:\n"
        DEPTHWISE_S8_MVE_SCALE("q4")
        DEPTHWISE_S8_MVE_SCALE("q5")
        DEPTHWISE_S8_MVE_SCALE("q6")
        DEPTHWISE_S8_MVE_SCALE("q7")
        "vqmovnb.s32 q0, q4\n"
        "vqmovnt.s32 q0, q5\n"
        "vqmovnb.s32 q1, q6\n"
        "vqmovnt.s32 q1, q7\n"
        "vqadd.s16 q0, q0, r1\n"
        "vqadd.s16 q1, q1, r1\n"
        "vqmovnb.s16 q2, q0\n"
        "vqmovnt.s16 q2, q1\n"
        "vldrb.8 q0, [%[law]]\n"
        "vldrb.8 q1, [%[law], #16]\n"
        "vmax.s8 q2, q2, q0\n"
        "vmin.s8 q2, q2, q1\n"
        "vstrb.8 q2, [%[out]], #16\n"
        "add %[offset], %[offset], #16\n"
        "subs r6, r6, #1\n"
        "bne 1b\n"
        "ldrd r1, r3, [%[law], #56]\n"
        "add %[offset], %[offset], r1\n"
        "subs r3, r3, #1\n"
        "str r3, [%[law], #60]\n"
        "bne 0b\n"
        : [offset] "+&r"(offset), [out] "+&r"(out)
        : [law] "r"(job)
        : "r1", "r3", "r4", "r5", "r6", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
    /* clang-format on */
}

/* Computes a row of fewer than 16 channels through copies of the taps and a buffer. */
static void depthwise_s8_mve_few(const ge_conv2d_params *p, const ge_mve_taps *s, depthwise_s8_mve_job *job,
                                 int8_t *out, int8_t *space) {
    int8_t sixteen[16];
    const int8_t **copies = (const int8_t **)(void *)(space + 16 * s->count);
    job->taps = copies;
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        for (int32_t i = 0; i < s->count; i++) {
            ge_mve_copy(space + 16 * i, s->taps[i] + ox * p->stride_w * p->in_c, p->in_c);
            copies[i] = space + 16 * i;
        }
        job->pixels = 1;
        depthwise_s8_mve_run(job, 0, sixteen);
        ge_mve_copy(out, sixteen, p->in_c);
        out += p->in_c;
    }
}

/* Computes a row whose last block overlaps the one before. */
static void depthwise_s8_mve_rest(const ge_conv2d_params *p, depthwise_s8_mve_job *job, int8_t *out) {
    const int32_t back = p->in_c - 16;
    const int32_t blocks = job->blocks;
    const int8_t *const stream = job->stream;
    const int8_t *const last = stream + blocks * 16 * (4 + 4 * GE_MVE_LAW_VECTORS + 2 * job->pairs + job->odd);
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        const int32_t offset = ox * p->stride_w * p->in_c;
        job->pixels = 1;
        depthwise_s8_mve_run(job, offset, out);
        job->pixels = 1;
        job->blocks = 1;
        job->stream = last;
        depthwise_s8_mve_run(job, offset + back, out + back);
        job->blocks = blocks;
        job->stream = stream;
        out += p->in_c;
    }
}

static void ge_depthwise_s8_mve(const ge_conv2d_params *p, const ge_rows *x, const int8_t *stream, const ge_rows *out,
                                int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t count = p->kernel_h * p->kernel_w;
    int8_t *const space = (int8_t *)scratch;
    ge_mve_taps taps = ge_mve_open(p, p->kernel_w, space + (p->in_c < 16 ? 20 * count : 0));
    depthwise_s8_mve_job job;
    memset(job.lo, p->lo, sizeof job.lo);
    memset(job.hi, p->hi, sizeof job.hi);
    job.zero_point = p->out_zero_point;
    job.odd = count % 2;
    job.pairs = count / 2;
    job.taps = taps.taps;
    job.stream = stream;
    job.blocks = p->in_c < 16 ? 1 : p->in_c / 16;
    job.step = p->stride_w * p->in_c - 16 * job.blocks;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        ge_mve_point(p, x, &taps, y);
        if (p->in_c < 16) {
            depthwise_s8_mve_few(p, &taps, &job, o, space);
        } else if (p->in_c % 16 != 0) {
            depthwise_s8_mve_rest(p, &job, o);
        } else {
            job.pixels = p->out_w;
            depthwise_s8_mve_run(&job, 0, o);
        }
    }
}
