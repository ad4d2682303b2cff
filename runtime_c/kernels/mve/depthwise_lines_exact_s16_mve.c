/* Depthwise convolution 3x3, stride 1, of int16 with int16 weights, sums of 64 bits: Helium, one channel at a time,
 * along rows, or along columns where these are longer.
 *
 * Each line of outputs has a copy of its three lines of inputs, interleaved: copy[3 * i + a] is input i of line a. So
 * the nine inputs of an output are contiguous, and those of the next one begin three further: VMLALDAVA adds eight
 * products, SMLALBB the ninth. The padding of the copies is written once for all channels. The sums of a line lie in
 * scratch, from where VLD2 parts their words; ge_mve_exact.h explains the requantization. It takes outputs in fours,
 * and the second four begins before the end of the first where the length is no multiple of four.
 *
 * scratch: the sums of a line, then the copies. It requires lines of four outputs and more. 64 channels on 25x5: 13
 * instructions per output under QEMU.
 *
 *   first loop:  r0 copies, r1 their ninth inputs, r4 sums, r5 the ninth weight, r2 r3 and r8 r9 two sums, r6 an input;
 *   q0 q1 inputs, q6 weights
 *   second loop: r4 sums, r1 outputs, r3 bytes of four outputs, r5 shift, r6 zero point; q0 q1 sums, q2 multiplier, q4
 *   lowest and q5 highest output, q7 offsets of outputs
 *   both: r10 lines, r11 the sums, r12 the job */
#include "ge.h"
#include "ge_mve.h"
#include "ge_mve_wide.h"
#include "ge_params.h"

#define DEPTHWISE_LINES_EXACT_S16_MVE_BYTES 4096 /* of copies, unless one line needs more */
#define DEPTHWISE_LINES_EXACT_S16_MVE_STEP 9362  /* seven steps fit 16 bits */

/* Job of one channel of some lines, in the order of the offsets in the assembly. */
typedef struct {
    const int16_t *copy; /* 0: of the line */
    int16_t *out;        /* 4: its first output */
    int32_t copy_line;   /* 8: bytes from line to line */
    int32_t out_line;    /* 12 */
    int32_t sums_back;   /* 16: bytes from the end of the first four sums to the second four; not positive */
    int32_t out_back;    /* 20: the same for outputs */
    int32_t fours;       /* 24: fours of outputs in a line, less one */
    int32_t out_step;    /* 28: bytes from output to output */
    int32_t lines;       /* 32 */
    int32_t multiplier;  /* 36: without a sign */
    int32_t lo, hi;      /* 40, 44 */
    int32_t zero_point;  /* 48 */
    int32_t last;        /* 52: the ninth weight */
    int64_t bias;        /* 56 */
    int16_t weights[8];  /* 64 */
    int64_t *sums;       /* 80: of a line */
    int32_t twos;        /* 84: pairs of outputs in a line */
    int32_t shift;       /* 88: amount for VRSHL of the upper word: negative */
} depthwise_lines_exact_s16_mve_job;

/* Where inputs of one channel come from, in the order of the offsets in the assembly. */
typedef struct {
    const int16_t *x; /* 0: the first input */
    int32_t step;     /* 4: elements from input to input of a line */
    int32_t line;     /* 8: bytes from line to line */
    int32_t count;    /* 12: inputs of a line */
    int32_t lines;    /* 16: lines, at least one */
    int16_t *to;      /* 20: line 0 of the copies of the first line */
    int32_t bytes;    /* 24: of a line of copies */
} depthwise_lines_exact_s16_mve_inputs;

/* Copies lines of inputs: each as line 0 of its copies, as line 1 of those before and as line 2 of those before these. */
static GE_NOINLINE void depthwise_lines_exact_s16_mve_copy(const depthwise_lines_exact_s16_mve_inputs *inputs) {
    __asm__ volatile("mov r12, %[inputs]\n"
                     "ldrd r0, r3, [r12]\n"
                     "mov r4, #0\n"
                     "ldrd r10, r11, [r12, #12]\n"
                     "vidup.u16 q0, r4, #1\n"
                     "ldrd r2, r9, [r12, #20]\n"
                     "mov r4, #3\n"
                     "vmul.i16 q1, q0, r3\n"
                     "vmul.i16 q3, q0, r4\n"
                     "ldr r12, [r12, #8]\n"
                     "lsl r3, r3, #4\n"
                     "mov r4, #24\n"
                     "1:\n"
                     "sub r5, r2, r9\n"
                     "mov r1, r0\n"
                     "sub r6, r5, r9\n"
                     "vmov q2, q3\n"
                     "adds r5, r5, #2\n"
                     "adds r6, r6, #4\n"
                     "wlstp.16 lr, r10, 3f\n"
                     "2:\n"
                     "vldrh.u16 q0, [r1, q1, uxtw #1]\n"
                     "add r1, r1, r3\n"
                     "vstrh.16 q0, [r2, q2, uxtw #1]\n"
                     "vstrh.16 q0, [r5, q2, uxtw #1]\n"
                     "vstrh.16 q0, [r6, q2, uxtw #1]\n"
                     "vadd.i16 q2, q2, r4\n"
                     "letp lr, 2b\n"
                     "3:\n"
                     "add r0, r0, r12\n"
                     "add r2, r2, r9\n"
                     "subs r11, r11, #1\n"
                     "bne 1b\n"
                     :
                     : [inputs] "r"(inputs)
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r9", "r10", "r11", "r12", "lr", "q0", "q1", "q2",
                       "q3", "cc", "memory");
}

/* clang-format off */

#define DEPTHWISE_LINES_EXACT_S16_MVE_FOUR \
    "vld20.32 {q0, q1}, [r4]\n" \
    "vld21.32 {q0, q1}, [r4]!\n" \
    "vmulh.u32 q0, q0, q2\n" \
    "vmul.i32 q1, q1, q2\n" \
    "vadd.i32 q0, q0, q1\n" \
    "vrshl.s32 q0, r5\n" \
    "vqadd.s32 q0, q0, r6\n" \
    "vmax.s32 q0, q0, q4\n" \
    "vmin.s32 q0, q0, q5\n" \
    "vstrh.32 q0, [r1, q7, uxtw #1]\n" \
    "add r1, r1, r3\n"

static GE_NOINLINE void depthwise_lines_exact_s16_mve_channel(depthwise_lines_exact_s16_mve_job *job) {
    register depthwise_lines_exact_s16_mve_job *from __asm__("r12") = job; /* clang finds no other register free */
    __asm__ volatile(
        "mov r0, #0\n"
        "vidup.u32 q1, r0, #1\n"
        "ldrd r3, r10, [r12, #28]\n"
        "lsr r6, r3, #1\n"
        "vmul.i32 q7, q1, r6\n"
        "ldrd r0, r2, [r12, #36]\n"
        "ldr r4, [r12, #44]\n"
        "ldr r11, [r12, #80]\n"
        "vdup.32 q2, r0\n"
        "vdup.32 q4, r2\n"
        "vdup.32 q5, r4\n"
        "vldrh.u16 q6, [r12, #64]\n"
        "1:\n"
        "ldr r0, [r12]\n"
        "ldr lr, [r12, #84]\n"
        "ldr r5, [r12, #52]\n"
        "add r1, r0, #16\n"
        "mov r4, r11\n"
        "dls lr, lr\n"
        "2:\n"
        "ldrd r2, r3, [r12, #56]\n"
        "vldrh.u16 q0, [r0], #6\n"
        "ldrsh r6, [r1], #6\n"
        "vmlaldava.s16 r2, r3, q0, q6\n"
        "ldrd r8, r9, [r12, #56]\n"
        "vldrh.u16 q1, [r0], #6\n"
        "smlalbb r2, r3, r6, r5\n"
        "ldrsh r6, [r1], #6\n"
        "vmlaldava.s16 r8, r9, q1, q6\n"
        "strd r2, r3, [r4], #8\n"
        "smlalbb r8, r9, r6, r5\n"
        "strd r8, r9, [r4], #8\n"
        "le lr, 2b\n"
        "mov r4, r11\n"
        "ldr r1, [r12, #4]\n"
        "ldr r3, [r12, #28]\n"
        "ldr r5, [r12, #88]\n"
        "ldr r6, [r12, #48]\n"
        "lsl r3, r3, #2\n"
        DEPTHWISE_LINES_EXACT_S16_MVE_FOUR
        "ldrd r8, lr, [r12, #20]\n"
        "ldr r2, [r12, #16]\n"
        "add r1, r1, r8\n"
        "add r4, r4, r2\n"
        "wls lr, lr, 4f\n"
        "3:\n"
        DEPTHWISE_LINES_EXACT_S16_MVE_FOUR
        "le lr, 3b\n"
        "4:\n"
        "ldrd r0, r1, [r12]\n"
        "ldrd r2, r4, [r12, #8]\n"
        "add r0, r0, r2\n"
        "add r1, r1, r4\n"
        "strd r0, r1, [r12]\n"
        "subs r10, r10, #1\n"
        "bne.w 1b\n"
        : "+r"(from)
        :
        : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "lr", "q0", "q1", "q2", "q4", "q5", "q6",
          "q7", "cc", "memory");
}

/* clang-format on */

/* The lines of a call. */
typedef struct {
    int32_t down;      /* 1: lines are columns */
    int32_t length;    /* outputs of a line */
    int32_t origin;    /* the input, in a line, of the first output's first tap */
    int32_t in_length; /* inputs of a line */
    int32_t in_lines;  /* lines of the input */
} depthwise_lines_exact_s16_mve_form;

/* Copies channel c of the inputs of `count` lines of outputs, whose first input line is `top`, to the copies `to`. */
static GE_NOINLINE void depthwise_lines_exact_s16_mve_load(const ge_conv2d_s16_params *p, const ge_rows *x,
                                                           const depthwise_lines_exact_s16_mve_form *f, int32_t top,
                                                           int32_t count, int32_t c, int16_t *to) {
    const int32_t bytes = 6 * (f->length + 2);
    const int32_t start = f->origin < 0 ? 0 : f->origin;
    const int32_t end = f->origin + f->length + 2 < f->in_length ? f->origin + f->length + 2 : f->in_length;
    const int32_t first = top < 0 ? 0 : top;
    const int32_t last = top + count + 2 < f->in_lines ? top + count + 2 : f->in_lines;
    if (first >= last || start >= end) {
        return;
    }
    depthwise_lines_exact_s16_mve_inputs inputs = {NULL,
                                                   f->down ? x->stride / 2 : p->in_c,
                                                   f->down ? 2 * p->in_c : x->stride,
                                                   end - start,
                                                   last - first,
                                                   to + (first - top) * (bytes / 2) + 3 * (start - f->origin),
                                                   bytes};
    inputs.x = (const int16_t *)ge_row(x, f->down ? start : first) + (f->down ? first : start) * p->in_c + c;
    if (x->slots == NULL) {
        depthwise_lines_exact_s16_mve_copy(&inputs);
        return;
    }
    inputs.lines = 1;
    for (int32_t line = first; line < last; line++) { /* rows in slots */
        inputs.x = (const int16_t *)ge_row(x, line) + start * p->in_c + c;
        depthwise_lines_exact_s16_mve_copy(&inputs);
        inputs.to += bytes / 2;
    }
}

/* Sets the weights of channel c, in the order of the copies: `at` has eight of them, in elements. */
static inline void depthwise_lines_exact_s16_mve_weights(const int16_t *weights, const uint16_t *at, int32_t channels,
                                                         int32_t c, depthwise_lines_exact_s16_mve_job *job) {
    const int16_t *const from = weights + c;
    __asm__ volatile("vldrh.u16 q0, [%[at]]\n"
                     "vldrh.u16 q1, [%[from], q0, uxtw #1]\n"
                     "vstrh.16 q1, [%[to]]\n"
                     :
                     : [at] "r"(at), [from] "r"(from), [to] "r"(job->weights)
                     : "q0", "q1", "memory");
    job->last = from[8 * channels];
}

/* Sets what all channels and bands have in common. */
static GE_NOINLINE depthwise_lines_exact_s16_mve_form
depthwise_lines_exact_s16_mve_begin(const ge_conv2d_s16_params *p, const ge_rows *x, const ge_rows *out, int32_t first,
                                    int32_t last, depthwise_lines_exact_s16_mve_job *job) {
    depthwise_lines_exact_s16_mve_form f = {0, p->out_w, -p->pad_left, p->in_w, p->in_h};
    if (last - first > p->out_w && x->slots == NULL && out->slots == NULL &&
        x->stride <= 2 * DEPTHWISE_LINES_EXACT_S16_MVE_STEP) {
        f = (depthwise_lines_exact_s16_mve_form){1, last - first, first - p->pad_top, p->in_h, p->in_w};
    }
    const int32_t advance = (f.length + 3) % 4 + 1;
    job->copy_line = 6 * (f.length + 2);
    job->out_line = f.down ? 2 * p->out_c : out->stride;
    job->out_step = f.down ? out->stride : 2 * p->out_c;
    job->out_back = job->out_step * (advance - 4);
    job->sums_back = 8 * (advance - 4);
    job->fours = (f.length - 1) / 4;
    job->twos = (f.length + 1) / 2;
    job->lo = p->lo;
    job->hi = p->hi;
    job->zero_point = p->out_zero_point;
    job->shift = p->shift < 33 ? -1 : 32 - p->shift;
    return f;
}

/* Computes the lines of one channel; `out` is the first output. */
static inline void depthwise_lines_exact_s16_mve_outputs(depthwise_lines_exact_s16_mve_job *job,
                                                         const depthwise_lines_exact_s16_mve_form *f,
                                                         const ge_rows *out, int32_t y, int32_t count, int32_t at) {
    job->out = (int16_t *)ge_row(out, y) + at;
    if (f->down || out->slots == NULL) {
        job->lines = count;
        depthwise_lines_exact_s16_mve_channel(job);
        return;
    }
    for (int32_t i = 0; i < count; i++) { /* rows in slots */
        job->out = (int16_t *)ge_row(out, y + i) + at;
        job->lines = 1;
        depthwise_lines_exact_s16_mve_channel(job);
    }
}

static void ge_depthwise_lines_exact_s16_mve(const ge_conv2d_s16_params *p, const ge_rows *x, const int16_t *weights,
                                             const int64_t *bias, const int32_t *multiplier, const ge_rows *out,
                                             int32_t first_row, int32_t last_row, void *scratch) {
    depthwise_lines_exact_s16_mve_job job;
    const depthwise_lines_exact_s16_mve_form f =
        depthwise_lines_exact_s16_mve_begin(p, x, out, first_row, last_row, &job);
    const int32_t top = f.down ? -p->pad_left : first_row - p->pad_top;
    const int32_t lines = f.down ? p->out_w : last_row - first_row;
    const int32_t copy = job.copy_line / 2, fit = DEPTHWISE_LINES_EXACT_S16_MVE_BYTES / job.copy_line - 4;
    const int32_t band = fit < 1 ? 1 : fit;
    uint16_t at[8];
    job.sums = (int64_t *)scratch;
    int16_t *const room = (int16_t *)(void *)(job.sums + (f.length + 1));
    for (int32_t i = 0; i < 8; i++) {
        at[i] = (uint16_t)((f.down ? i : i % 3 * 3 + i / 3) * p->out_c);
    }
    for (int32_t line = 0; line < lines; line += band) {
        const int32_t count = lines - line < band ? lines - line : band;
        ge_mve_wide_fill(room, p->in_zero_point, (count + 4) * copy);
        for (int32_t c = 0; c < p->out_c; c++) {
            int16_t *const to = room + 2 * copy; /* as if two more lines came before */
            depthwise_lines_exact_s16_mve_load(p, x, &f, top + line, count, c, to);
            depthwise_lines_exact_s16_mve_weights(weights, at, p->out_c, c, &job);
            job.bias = bias[c];
            job.multiplier = multiplier[c];
            job.copy = to;
            depthwise_lines_exact_s16_mve_outputs(&job, &f, out, f.down ? first_row : first_row + line, count,
                                                  (f.down ? line * p->out_c : 0) + c);
        }
    }
}
