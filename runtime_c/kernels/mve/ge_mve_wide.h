/* Convolution of int16 with sums of 32 bits for Helium: three pixels by four channels at a time, any window and groups.
 *
 * The windows of the pixels lie in scratch, each contiguous and rounded up to 8 inputs; 1x1 windows whose length is a
 * multiple of eight are read in place if all three are in one row, since the outputs of a row may overwrite inputs of
 * the rows before it. Weights beyond the window are zeros. There are two passes, channels 0 and 2, then 1 and 3: for 8
 * inputs each step takes 2 loads of weights, which widen bytes, 3 of pixels and 6 VMLADAVA: 48 MACs in 11 instructions. Sums are modulo 2^32, so they are exact where the whole sum fits 32 bits. Requantization has shift 32.
 *
 *   r0 r2 | r4 r6 | r8 r10  sums of pixel 0, 1, 2   r1 r3 r5  their windows, then where outputs go   r7  the stream
 *   r9  groups   r11  zero point   r12  the job   q0 q1 weights, q2 q3 pixels, q4 lowest output, q5 q6 q7 four outputs of
 *   pixel 0, 1, 2
 */
#ifndef GE_MVE_WIDE_H
#define GE_MVE_WIDE_H

#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"
#include "ge_thumb_pool.h"

typedef struct {
    const int16_t *x[3];  /* 0: the windows */
    int16_t *out[3];      /* 12: where the outputs go */
    const int8_t *stream; /* 24: for each four channels: steps of both passes, biases, multipliers */
    int32_t groups;       /* 28: of four channels */
    int32_t zero_point;   /* 32 */
    int32_t steps;        /* 36: of 8 inputs, less one */
    int32_t lo, hi;       /* 40, 44 */
    int32_t saved;        /* 48: r7, which a compiler may want to keep */
    int32_t highest[4];   /* 52: hi in all lanes */
} ge_mve_wide_job;

/* clang-format off */

#define GE_MVE_WIDE_BYTES(q) "vldrb.s16 " q ", [r7], #8\n"
#define GE_MVE_WIDE_HALVES(q) "vldrh.u16 " q ", [r7], #16\n"

/* Multiplies 8 inputs; `how` is "" where the sums begin, else "a". */
#define GE_MVE_WIDE_STEP(load, how) \
    load("q0") \
    "vldrh.u16 q2, [r1], #16\n" \
    load("q1") \
    "vmladav" how ".s16 r0, q0, q2\n" \
    "vldrh.u16 q3, [r3], #16\n" \
    "vmladav" how ".s16 r2, q1, q2\n" \
    "vldrh.u16 q2, [r5], #16\n" \
    "vmladav" how ".s16 r4, q0, q3\n" \
    "vmladav" how ".s16 r6, q1, q3\n" \
    "vmladav" how ".s16 r8, q0, q2\n" \
    "vmladav" how ".s16 r10, q1, q2\n"

/* Computes the sums of two channels into lanes `high` and `low` of q5, q6, q7. */
#define GE_MVE_WIDE_PASS(load, high, low) \
    "ldrd r1, r3, [r12]\n" \
    "ldr r5, [r12, #8]\n" \
    "ldr lr, [r12, #36]\n" \
    GE_MVE_WIDE_STEP(load, "") \
    "tst lr, #1\n" \
    "beq 3f\n" \
    GE_MVE_WIDE_STEP(load, "a") \
    "3:\n" \
    "lsr lr, lr, #1\n" \
    "wls lr, lr, 4f\n" \
    "2:\n" \
    GE_MVE_WIDE_STEP(load, "a") \
    GE_MVE_WIDE_STEP(load, "a") \
    "le lr, 2b\n" \
    "4:\n" \
    "vmov q5[" high "], q5[" low "], r0, r2\n" \
    "vmov q6[" high "], q6[" low "], r4, r6\n" \
    "vmov q7[" high "], q7[" low "], r8, r10\n"

/* Computes all channels of three pixels, in fours. */
#define GE_MVE_WIDE_CHANNELS(load) \
    "str r7, [r12, #48]\n" \
    "ldr r7, [r12, #24]\n" \
    "ldrd r9, r11, [r12, #28]\n" \
    "ldrd r0, r2, [r12, #40]\n" \
    "vdup.32 q4, r0\n" \
    "vdup.32 q0, r2\n" \
    "vstrw.32 q0, [r12, #52]\n" \
    "1:\n" \
    GE_MVE_WIDE_PASS(load, "2", "0") \
    GE_MVE_WIDE_PASS(load, "3", "1") \
    "vldrw.u32 q0, [r7], #16\n" \
    "vldrw.u32 q1, [r7], #16\n" \
    "vadd.i32 q5, q5, q0\n" \
    "vadd.i32 q6, q6, q0\n" \
    "vadd.i32 q7, q7, q0\n" \
    "vrmulh.s32 q5, q5, q1\n" \
    "vrmulh.s32 q6, q6, q1\n" \
    "vrmulh.s32 q7, q7, q1\n" \
    "vldrw.u32 q0, [r12, #52]\n" \
    "vadd.i32 q5, q5, r11\n" \
    "vadd.i32 q6, q6, r11\n" \
    "vadd.i32 q7, q7, r11\n" \
    "ldrd r1, r3, [r12, #12]\n" \
    "vmax.s32 q5, q5, q4\n" \
    "vmax.s32 q6, q6, q4\n" \
    "vmax.s32 q7, q7, q4\n" \
    "ldr r5, [r12, #20]\n" \
    "vmin.s32 q5, q5, q0\n" \
    "vmin.s32 q6, q6, q0\n" \
    "vmin.s32 q7, q7, q0\n" \
    "vstrh.32 q5, [r1], #8\n" \
    "vstrh.32 q6, [r3], #8\n" \
    "vstrh.32 q7, [r5], #8\n" \
    "strd r1, r3, [r12, #12]\n" \
    "subs r9, r9, #1\n" \
    "str r5, [r12, #20]\n" \
    "bne.w 1b\n" \
    "ldr r7, [r12, #48]\n"

#define GE_MVE_WIDE_CHANGES \
    "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory"

__attribute__((unused, noinline)) static void ge_mve_wide_bytes(ge_mve_wide_job *job) {
    register ge_mve_wide_job *at __asm__("r12") = job; /* clang finds no other register free */
    __asm__ volatile(GE_MVE_WIDE_CHANNELS(GE_MVE_WIDE_BYTES) : "+r"(at) : : GE_MVE_WIDE_CHANGES);
}

__attribute__((unused, noinline)) static void ge_mve_wide_halves(ge_mve_wide_job *job) {
    register ge_mve_wide_job *at __asm__("r12") = job;
    __asm__ volatile(GE_MVE_WIDE_CHANNELS(GE_MVE_WIDE_HALVES) : "+r"(at) : : GE_MVE_WIDE_CHANGES);
}

/* clang-format on */

/* Fills `count` elements with `value`. */
static inline void ge_mve_wide_fill(int16_t *to, int32_t value, int32_t count) {
    __asm__ volatile("vdup.16 q0, %[value]\n"
                     "wlstp.16 lr, %[count], 2f\n"
                     "1:\n"
                     "vstrh.16 q0, [%[to]], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [to] "+&r"(to)
                     : [count] "r"(count), [value] "r"(value)
                     : "lr", "q0", "memory");
}

/* State of one call of a convolution, in scratch. */
typedef struct {
    const ge_conv2d_s16_params *p;
    const ge_rows *x;
    int32_t bytes; /* bytes of a weight */
    int32_t depth; /* input channels of a group */
    int32_t steps; /* steps of 8 inputs */
    int32_t held;  /* pixels held so far, 0..2 */
    ge_mve_wide_job job;
} ge_mve_wide_call;

#define GE_MVE_WIDE_STATE 96 /* bytes for it */

/* Begins a call. */
static inline void ge_mve_wide_open(ge_mve_wide_call *c, const ge_conv2d_s16_params *p, const ge_rows *x,
                                    int32_t bytes) {
    c->p = p;
    c->x = x;
    c->bytes = bytes;
    c->depth = p->in_c / p->groups;
    c->steps = (p->kernel_h * p->kernel_w * c->depth + 7) / 8;
    c->held = 0;
}

static inline void ge_mve_wide_products(const ge_mve_wide_call *c, ge_mve_wide_job *job) {
    if (c->bytes == 1) {
        ge_mve_wide_bytes(job);
    } else {
        ge_mve_wide_halves(job);
    }
}

/* Computes the outputs of three pixels; the last one to three channels go through a buffer. */
__attribute__((unused, noinline)) static void ge_mve_wide_run(ge_mve_wide_call *c, int32_t channels) {
    ge_mve_wide_job *const job = &c->job;
    const int32_t rest = channels % 4;
    c->held = 0;
    job->groups = channels / 4;
    if (job->groups > 0) {
        ge_mve_wide_products(c, job); /* advances the addresses of the outputs */
    }
    if (rest != 0) {
        const int8_t *const stream = job->stream;
        int16_t four[3][4];
        int16_t *out[3];
        job->stream += channels / 4 * (32 * c->steps * c->bytes + 32);
        job->groups = 1;
        for (int32_t i = 0; i < 3; i++) {
            out[i] = job->out[i];
            job->out[i] = four[i];
        }
        ge_mve_wide_products(c, job);
        job->stream = stream;
        for (int32_t i = 0; i < 3; i++) {
            memcpy(out[i], four[i], (size_t)rest * 2);
        }
    }
}

/* Copies one row of a window tap by tap. */
__attribute__((unused, noinline)) static void ge_mve_wide_taps(const ge_mve_wide_call *c, const int16_t *row,
                                                               int32_t ix, int16_t *to) {
    const ge_conv2d_s16_params *const p = c->p;
    for (int32_t kx = 0; kx < p->kernel_w; kx++) {
        if (ix >= 0 && ix < p->in_w) {
            ge_mve_copy((int8_t *)to, (const int8_t *)(row + ix * p->in_c), 2 * c->depth);
        } else {
            ge_mve_wide_fill(to, p->in_zero_point, c->depth);
        }
        ix += p->dilation_w;
        to += c->depth;
    }
}

/* Copies `count` <= 8 elements of each of `rows` >= 1 rows. */
static inline void ge_mve_wide_short(int16_t *to, int32_t to_step, const int16_t *from, int32_t from_step,
                                     int32_t count, int32_t rows) {
    __asm__ volatile("vctp.16 %[count]\n"
                     "dls lr, %[rows]\n"
                     "1:\n"
                     "vpstt\n"
                     "vldrht.u16 q0, [%[from]]\n"
                     "vstrht.16 q0, [%[to]]\n"
                     "add %[from], %[from], %[from_step]\n"
                     "add %[to], %[to], %[to_step]\n"
                     "le lr, 1b\n"
                     : [to] "+&r"(to), [from] "+&r"(from)
                     : [to_step] "r"(2 * to_step), [from_step] "r"(from_step), [count] "r"(count), [rows] "r"(rows)
                     : "lr", "q0", "memory");
}

/* Copies `count` elements of each of `rows` >= 1 rows. */
static inline void ge_mve_wide_block(int16_t *to, int32_t to_step, const int16_t *from, int32_t from_step,
                                     int32_t count, int32_t rows) {
    if (count <= 8) {
        ge_mve_wide_short(to, to_step, from, from_step, count, rows);
        return;
    }
    __asm__ volatile("1:\n"
                     "mov r4, %[from]\n"
                     "mov r5, %[to]\n"
                     "wlstp.16 lr, %[count], 3f\n"
                     "2:\n"
                     "vldrh.u16 q0, [r4], #16\n"
                     "vstrh.16 q0, [r5], #16\n"
                     "letp lr, 2b\n"
                     "3:\n"
                     "add %[from], %[from], %[from_step]\n"
                     "add %[to], %[to], %[to_step]\n"
                     "subs %[rows], %[rows], #1\n"
                     "bne 1b\n"
                     : [to] "+&r"(to), [from] "+&r"(from), [rows] "+&r"(rows)
                     : [to_step] "r"(2 * to_step), [from_step] "r"(from_step), [count] "r"(count)
                     : "r4", "r5", "lr", "q0", "cc", "memory");
}

/* Copies the window of output (y, ox) in the channels of a group from c0 on. Where the channels of neighbouring columns
 * are contiguous, what lies inside the input is copied into padding row by row. */
__attribute__((unused, noinline)) static void ge_mve_wide_window(const ge_mve_wide_call *c, int32_t y, int32_t ox,
                                                                 int32_t c0, int16_t *to) {
    const ge_conv2d_s16_params *const p = c->p;
    const int32_t ix = ox * p->stride_w - p->pad_left;
    const int32_t run = p->kernel_w * c->depth;
    const int32_t outside = ix + p->kernel_w - p->in_w; /* taps in padding on the right */
    const int32_t left = ix >= 0 ? 0 : -ix * c->depth;
    const int32_t count = run - left - (outside <= 0 ? 0 : outside * c->depth);
    const int32_t touching = p->dilation_w == 1 && c->depth == p->in_c && count > 0;
    const int32_t top = y * p->stride_h - p->pad_top;
    const ge_thumb_span rows = ge_thumb_span_of(top, p->kernel_h, p->dilation_h, 0, p->in_h);
    const int32_t step = p->dilation_h * c->x->stride;
    if (count < run || rows.last - rows.first < p->kernel_h) {
        ge_mve_wide_fill(to, p->in_zero_point, p->kernel_h * run);
    }
    to += rows.first * run;
    if (touching && c->x->slots == NULL && rows.first < rows.last) {
        const int16_t *const row = (const int16_t *)ge_row(c->x, top + rows.first * p->dilation_h);
        ge_mve_wide_block(to + left, run, row + ix * c->depth + left, step, count, rows.last - rows.first);
        return;
    }
    for (int32_t ky = rows.first; ky < rows.last; ky++) {
        const int16_t *const row = (const int16_t *)ge_row(c->x, top + ky * p->dilation_h);
        if (touching) {
            ge_mve_wide_block(to + left, 0, row + ix * c->depth + left, 0, count, 1);
        } else {
            ge_mve_wide_taps(c, row + c0, ix, to);
        }
        to += run;
    }
}

/* Adds a pixel, whose window is x, to the three that are computed at a time. */
static inline void ge_mve_wide_add(ge_mve_wide_call *c, const int16_t *x, int16_t *out, int32_t channels) {
    c->job.x[c->held] = x;
    c->job.out[c->held] = out;
    c->held++;
    if (c->held == 3) {
        ge_mve_wide_run(c, channels);
    }
}

/* Computes a row of outputs, whose windows are pixels `from` on; `room` is for three of them. */
static inline void ge_mve_wide_pixels(ge_mve_wide_call *c, const int16_t *from, int16_t *o, int32_t channels,
                                      int16_t *room) {
    const int32_t in_step = c->p->stride_w * c->p->in_c, out_step = c->p->out_c;
    int32_t direct = 0; /* pixels that are read in place with those before them */
    for (int32_t rest = c->p->out_w; rest > 0; rest--) {
        const int16_t *window = from;
        direct = c->held == 0 && rest >= 3 ? 3 : direct;
        if (direct > 0) {
            direct--;
        } else {
            int16_t *const copy = room + c->held * c->depth;
            ge_mve_copy((int8_t *)copy, (const int8_t *)from, 2 * c->depth);
            window = copy;
        }
        ge_mve_wide_add(c, window, o, channels);
        from += in_step;
        o += out_step;
    }
}

/* Computes output row y from copies of its windows. */
static inline void ge_mve_wide_windows(ge_mve_wide_call *c, int32_t y, int32_t c0, int16_t *o, int32_t channels,
                                       int16_t *room) {
    for (int32_t ox = 0; ox < c->p->out_w; ox++) {
        int16_t *const window = room + c->held * 8 * c->steps;
        ge_mve_wide_window(c, y, ox, c0, window);
        ge_mve_wide_add(c, window, o, channels);
        o += c->p->out_c;
    }
}

/* Computes output rows first..last-1. scratch: the state, three windows. */
__attribute__((always_inline)) static inline void ge_mve_wide_conv(const ge_conv2d_s16_params *p, const ge_rows *x,
                                                                   const int8_t *stream, int32_t bytes,
                                                                   const ge_rows *out, int32_t first, int32_t last,
                                                                   void *scratch) {
    ge_mve_wide_call *const c = (ge_mve_wide_call *)scratch;
    int16_t *const windows = (int16_t *)scratch + GE_MVE_WIDE_STATE / 2;
    ge_mve_wide_open(c, p, x, bytes);
    const int32_t channels = p->out_c / p->groups;
    const int32_t points = p->kernel_h * p->kernel_w == 1 && p->pad_top == 0 && p->pad_left == 0 && c->depth % 8 == 0 &&
                           (p->out_h - 1) * p->stride_h < p->in_h && (p->out_w - 1) * p->stride_w < p->in_w;
    c->job.zero_point = p->out_zero_point;
    c->job.steps = c->steps - 1;
    c->job.lo = p->lo;
    c->job.hi = p->hi;
    for (int32_t g = 0; g < p->groups; g++) {
        c->job.stream = stream + g * ((channels + 3) / 4) * (32 * c->steps * bytes + 32);
        for (int32_t y = first; y < last; y++) {
            int16_t *const o = (int16_t *)ge_row(out, y) + g * channels;
            if (points) {
                ge_mve_wide_pixels(c, (const int16_t *)ge_row(x, y * p->stride_h) + g * c->depth, o, channels, windows);
            } else {
                ge_mve_wide_windows(c, y, g * c->depth, o, channels, windows);
            }
        }
        if (c->held > 0) {
            for (int32_t i = c->held; i < 3; i++) { /* repeats the last pixel */
                c->job.x[i] = c->job.x[0];
                c->job.out[i] = c->job.out[0];
            }
            ge_mve_wide_run(c, channels);
        }
    }
}

#endif
