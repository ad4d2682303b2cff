/* 3x3 depthwise convolution, stride 1 or 2, of int16 for Helium: eight channels of two pixels at a time.
 *
 * Three rows of the input lie in scratch with their padding, in slots that they take in turn, where the columns of
 * eight channels are contiguous, so a tap is a constant offset. VMULLB and VMULLT multiply even and odd channels, which
 * are added to sums of 32 bits; two narrowing moves restore their order. Requantization has shift 32.
 *
 *   r0 r1 r2 rows, r3 weights, r4 out, r5 biases and multipliers, r6 bytes from output to output, r8 lowest and r9 highest
 *   output, r10 zero point; q0 q1 even and odd channels of a pixel, q2 q3 of the next, q4 weights, q5 inputs, q6 products
 */
#ifndef GE_MVE_WIDE_DEPTHWISE_H
#define GE_MVE_WIDE_DEPTHWISE_H

#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

#define GE_MVE_WIDE_LANES 8

/* Job of a row, in the order in which the loop loads it. */
typedef struct {
    const int16_t *rows[3];
    const int8_t *weights; /* [3][3][8] */
    int16_t *out;
    const int8_t *constants; /* biases and multipliers of the even and the odd channels: 64 bytes */
    int32_t step;            /* bytes from output to output */
    int32_t lo, hi;
    int32_t zero_point;
    int32_t pairs;    /* 40: of outputs */
    int32_t single;   /* 44: 1 where one more output follows the pairs */
    int32_t channels; /* 48: 1..8, channels that exist */
} ge_mve_wide_line;

/* clang-format off */

#define GE_MVE_WIDE_TAP_BYTES(at) "vldrb.s16 q4, [r3, #8*(" at ")]\n"
#define GE_MVE_WIDE_TAP_HALVES(at) "vldrh.u16 q4, [r3, #16*(" at ")]\n"

/* Multiplies the inputs at `at` of a row by the weights in q4. */
#define GE_MVE_WIDE_TIMES(row, at, even, odd) \
    "vldrh.u16 q5, [" row ", #16*(" at ")]\n" \
    "vmullb.s16 q6, q5, q4\n" \
    "vadd.i32 " even ", " even ", q6\n" \
    "vmullt.s16 q6, q5, q4\n" \
    "vadd.i32 " odd ", " odd ", q6\n"

#define GE_MVE_WIDE_TAP2(load, row, ky, kx, stride) \
    load("3*" ky "+" kx) \
    GE_MVE_WIDE_TIMES(row, kx, "q0", "q1") \
    GE_MVE_WIDE_TIMES(row, kx "+" stride, "q2", "q3")

#define GE_MVE_WIDE_TAP1(load, row, ky, kx, stride) \
    load("3*" ky "+" kx) \
    GE_MVE_WIDE_TIMES(row, kx, "q0", "q1")

#define GE_MVE_WIDE_TAPS(tap, load, stride) \
    tap(load, "r0", "0", "0", stride) tap(load, "r0", "0", "1", stride) tap(load, "r0", "0", "2", stride) \
    tap(load, "r1", "1", "0", stride) tap(load, "r1", "1", "1", stride) tap(load, "r1", "1", "2", stride) \
    tap(load, "r2", "2", "0", stride) tap(load, "r2", "2", "1", stride) tap(load, "r2", "2", "2", stride)

#define GE_MVE_WIDE_SCALE(even, odd) \
    "vrmulh.s32 " even ", " even ", q4\n" \
    "vrmulh.s32 " odd ", " odd ", q5\n" \
    "vadd.i32 " even ", " even ", r10\n" \
    "vadd.i32 " odd ", " odd ", r10\n" \
    "vqmovnb.s32 " even ", " even "\n" \
    "vqmovnt.s32 " even ", " odd "\n" \
    "vmax.s16 " even ", " even ", q6\n" \
    "vmin.s16 " even ", " even ", q7\n" \
    "vpst\n" \
    "vstrht.16 " even ", [r4]\n" \
    "add r4, r4, r6\n"

#define GE_MVE_WIDE_LAW \
    "vldrw.u32 q4, [r5, #32]\n" \
    "vldrw.u32 q5, [r5, #48]\n" \
    "vdup.16 q6, r8\n"

/* Computes a row of outputs of eight channels. */
#define GE_MVE_WIDE_LINE(load, stride) \
    "mov r12, %[job]\n" \
    "ldm r12, {r0, r1, r2, r3, r4, r5, r6, r8, r9, r10}\n" \
    "ldr lr, [r12, #48]\n" \
    "vctp.16 lr\n" \
    "ldr lr, [r12, #40]\n" \
    "vdup.16 q7, r9\n" \
    "wls lr, lr, 2f\n" \
    "1:\n" \
    "vldrw.u32 q0, [r5]\n" \
    "vldrw.u32 q1, [r5, #16]\n" \
    "vldrw.u32 q2, [r5]\n" \
    "vldrw.u32 q3, [r5, #16]\n" \
    GE_MVE_WIDE_TAPS(GE_MVE_WIDE_TAP2, load, stride) \
    GE_MVE_WIDE_LAW \
    "add r0, r0, #32*" stride "\n" \
    "add r1, r1, #32*" stride "\n" \
    "add r2, r2, #32*" stride "\n" \
    GE_MVE_WIDE_SCALE("q0", "q1") \
    GE_MVE_WIDE_SCALE("q2", "q3") \
    "le lr, 1b\n" \
    "2:\n" \
    "ldr lr, [r12, #44]\n"                                                                                             \
    "cmp lr, #0\n"                                                                                                     \
    "beq.w 5f\n"                                                                                                       \
    "vldrw.u32 q0, [r5]\n" \
    "vldrw.u32 q1, [r5, #16]\n" \
    GE_MVE_WIDE_TAPS(GE_MVE_WIDE_TAP1, load, stride) \
    GE_MVE_WIDE_LAW \
    GE_MVE_WIDE_SCALE("q0", "q1") \
    "5:\n"

#define GE_MVE_WIDE_LINE_FUNCTION(name, load, stride) \
    __attribute__((unused, noinline)) static void name(const ge_mve_wide_line *job) { \
        __asm__ volatile(GE_MVE_WIDE_LINE(load, stride) \
                         : \
                         : [job] "r"(job) \
                         : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", \
                           "q4", "q5", "q6", "q7", "cc", "memory"); \
    }

/* One function for each size of a weight (1 or 2 bytes) and stride (1 or 2). */
GE_MVE_WIDE_LINE_FUNCTION(ge_mve_wide_line_bytes, GE_MVE_WIDE_TAP_BYTES, "1")
GE_MVE_WIDE_LINE_FUNCTION(ge_mve_wide_line_bytes2, GE_MVE_WIDE_TAP_BYTES, "2")
GE_MVE_WIDE_LINE_FUNCTION(ge_mve_wide_line_halves, GE_MVE_WIDE_TAP_HALVES, "1")
GE_MVE_WIDE_LINE_FUNCTION(ge_mve_wide_line_halves2, GE_MVE_WIDE_TAP_HALVES, "2")

/* clang-format on */

static inline void ge_mve_wide_outputs(const ge_mve_wide_line *job, int32_t bytes, int32_t stride) {
    if (bytes == 1 && stride == 1) {
        ge_mve_wide_line_bytes(job);
    } else if (bytes == 1) {
        ge_mve_wide_line_bytes2(job);
    } else if (stride == 1) {
        ge_mve_wide_line_halves(job);
    } else {
        ge_mve_wide_line_halves2(job);
    }
}

/* Copies `count` pixels of `channels` channels, `step` bytes apart, to vectors of eight channels. */
static inline int16_t *ge_mve_wide_eights(const int16_t *x, int32_t step, int32_t count, int32_t channels,
                                          int16_t *to) {
    __asm__ volatile("vctp.16 %[channels]\n"
                     "wls lr, %[count], 2f\n"
                     "1:\n"
                     "vpst\n"
                     "vldrht.u16 q0, [%[x]]\n"
                     "add %[x], %[x], %[step]\n"
                     "vstrh.16 q0, [%[to]], #16\n"
                     "le lr, 1b\n"
                     "2:\n"
                     : [x] "+&r"(x), [to] "+&r"(to)
                     : [count] "r"(count), [channels] "r"(channels), [step] "r"(step)
                     : "lr", "q0", "memory");
    return to;
}

/* Writes `count` vectors of eight zero points. */
static inline int16_t *ge_mve_wide_padding(int32_t zero_point, int32_t count, int16_t *to) {
    __asm__ volatile("vdup.16 q0, %[value]\n"
                     "wls lr, %[count], 2f\n"
                     "1:\n"
                     "vstrh.16 q0, [%[to]], #16\n"
                     "le lr, 1b\n"
                     "2:\n"
                     : [to] "+&r"(to)
                     : [count] "r"(count), [value] "r"(zero_point)
                     : "lr", "q0", "memory");
    return to;
}

/* Copies input row iy into a slot: for each eight channels `columns` columns, some of which are padding. */
static inline void ge_mve_wide_slot(const ge_conv2d_s16_params *p, const ge_rows *x, int32_t iy, int32_t columns,
                                    int16_t *to) {
    const int32_t blocks = (p->in_c + GE_MVE_WIDE_LANES - 1) / GE_MVE_WIDE_LANES;
    if (iy < 0 || iy >= p->in_h) {
        (void)ge_mve_wide_padding(p->in_zero_point, blocks * columns, to);
        return;
    }
    const int16_t *const row = (const int16_t *)ge_row(x, iy);
    const int32_t left = p->pad_left < columns ? p->pad_left : columns;
    const int32_t inside = columns - left < p->in_w ? columns - left : p->in_w;
    for (int32_t b = 0; b < blocks; b++) {
        const int32_t rest = p->in_c - b * GE_MVE_WIDE_LANES;
        to = ge_mve_wide_padding(p->in_zero_point, left, to);
        to = ge_mve_wide_eights(row + b * GE_MVE_WIDE_LANES, 2 * p->in_c, inside,
                                rest < GE_MVE_WIDE_LANES ? rest : GE_MVE_WIDE_LANES, to);
        to = ge_mve_wide_padding(p->in_zero_point, columns - left - inside, to);
    }
}

/* Computes output rows first..last-1. scratch: three rows of the input. */
static inline void ge_mve_wide_depthwise3x3(const ge_conv2d_s16_params *p, const ge_rows *x, const int8_t *stream,
                                            int32_t bytes, const ge_rows *out, int32_t first, int32_t last,
                                            void *scratch) {
    const int32_t columns = (p->out_w - 1) * p->stride_w + 3;
    const int32_t blocks = (p->out_c + GE_MVE_WIDE_LANES - 1) / GE_MVE_WIDE_LANES;
    const int32_t slot = blocks * columns * GE_MVE_WIDE_LANES;
    ge_mve_wide_line job;
    job.step = 2 * p->out_c;
    job.lo = p->lo;
    job.hi = p->hi;
    job.zero_point = p->out_zero_point;
    job.pairs = p->out_w / 2;
    job.single = p->out_w & 1;
    int32_t next = first * p->stride_h - p->pad_top; /* the next row to load */
    for (int32_t y = first; y < last; y++) {
        const int32_t top = y * p->stride_h - p->pad_top;
        for (next = next < top ? top : next; next < top + 3; next++) {
            ge_mve_wide_slot(p, x, next, columns, (int16_t *)scratch + (next + 3 * p->in_h) % 3 * slot);
        }
        job.out = (int16_t *)ge_row(out, y);
        for (int32_t k = 0; k < 3; k++) {
            job.rows[k] = (const int16_t *)scratch + (top + k + 3 * p->in_h) % 3 * slot;
        }
        job.constants = stream;
        for (int32_t rest = p->out_c; rest > 0; rest -= GE_MVE_WIDE_LANES) {
            job.weights = job.constants + 64;
            job.channels = rest < GE_MVE_WIDE_LANES ? rest : GE_MVE_WIDE_LANES;
            ge_mve_wide_outputs(&job, bytes, p->stride_w);
            for (int32_t k = 0; k < 3; k++) {
                job.rows[k] += columns * GE_MVE_WIDE_LANES;
            }
            job.constants += 64 + 72 * bytes;
            job.out += GE_MVE_WIDE_LANES;
        }
    }
}

#endif
