/* Convolution of int8 [H, W, C] with int8 weights, one group, in any law: Helium.
 *
 * Three pixels by four channels at a time. The windows of the pixels lie in scratch, each in one piece and rounded up to
 * 16 bytes (a 1x1 kernel reads three pixels of one row where they are, when in_c is a multiple of 16); weights beyond the
 * window are zeros, so that what lies behind it does not matter. Two passes, channels 0 and 2, then 1 and 3: of 16
 * channels of input each step takes 2 loads of weights, 3 of pixels and 6 VMLADAVA, 96 MACs in 11 instructions and the LE.
 * Two channels apart is what VMOV puts into one vector from two registers.
 *
 *   r0 r2 | r4 r6 | r8 r10  sums of pixel 0, 1, 2 (VMLADAVA wants even registers)
 *   r1 r3 r5  pixels        r9  the stream: weights in reading order, then four biases and the words of the law
 *   r11 LE steps, r12 end of the stream
 *   r7  the block           lr  LE's counter
 *   q0 q1 weights, q2 q3 pixels, q5 q6 q7 four outputs of pixel 0, 1, 2; q0-q3 constants of the law, limits
 *
 * All windows of a block are read before its outputs are written, so that a block may span rows.
 * Measured, instructions under QEMU: 1x1 64->64 25x5 97,767 (0.19 per MAC); 3x3 16->16 32x32 439,236 (0.19); 3x3 64->64 8x8
 * 331,049 (0.14); 3x3 3->16 32x32 188,433 (0.43).
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_mve.h"
#include "ge_mve_law.h"
#include "ge_mve_taps.h"
#include "ge_params.h"

#define CONV2D_S8_MVE_STEPS 0 /* of 16 inputs, unrolled; 0: a loop */

#define CONV2D_S8_MVE_TEXT(x) #x
#define CONV2D_S8_MVE_NUMBER(x) CONV2D_S8_MVE_TEXT(x)

typedef struct {
    const int8_t *x[3];   /* 0: the windows */
    int8_t *out[3];       /* 12: where the outputs go; moves on */
    int32_t zero_point;   /* 24 */
    const int8_t *stream; /* 28: from here */
    const int8_t *end;    /* 32: to there */
    int32_t more_steps;   /* 36: of 16 inputs, after the first one */
    int32_t lo[4];        /* 40 */
    int32_t hi[4];        /* 56 */
    int32_t held;         /* pixels so far, 0..2 */
    int32_t window;       /* bytes, whole vectors */
    int32_t group;        /* bytes of the stream for four channels */
} conv2d_s8_mve_block;

/* clang-format off */

/* 16 inputs; `how`: "" where the sums begin, else "a". */
#define CONV2D_S8_MVE_STEP(how) \
    "vldrb.8 q0, [r9], #16\n" \
    "vldrb.8 q2, [r1], #16\n" \
    "vldrb.8 q1, [r9], #16\n" \
    "vmladav" how ".s8 r0, q0, q2\n" \
    "vldrb.8 q3, [r3], #16\n" \
    "vmladav" how ".s8 r2, q1, q2\n" \
    "vldrb.8 q2, [r5], #16\n" \
    "vmladav" how ".s8 r4, q0, q3\n" \
    "vmladav" how ".s8 r6, q1, q3\n" \
    "vmladav" how ".s8 r8, q0, q2\n" \
    "vmladav" how ".s8 r10, q1, q2\n"

/* Sums of two channels, into lanes `high` and `low` of q5, q6, q7. */
#define CONV2D_S8_MVE_PASS(high, low) \
    "ldrd r1, r3, [r7]\n" \
    "ldr r5, [r7, #8]\n" \
    CONV2D_S8_MVE_STEP("") \
    ".if ge_steps > 0\n" \
    ".rept ge_steps - 1\n" \
    CONV2D_S8_MVE_STEP("a") \
    ".endr\n" \
    ".else\n" \
    "wls lr, r11, 3f\n" \
    "2:\n" \
    CONV2D_S8_MVE_STEP("a") \
    "le lr, 2b\n" \
    "3:\n" \
    ".endif\n" \
    "vmov q5[" high "], q5[" low "], r0, r2\n" \
    "vmov q6[" high "], q6[" low "], r4, r6\n" \
    "vmov q7[" high "], q7[" low "], r8, r10\n"

/* Four outputs in `q`, to the address in `to`. */
#define CONV2D_S8_MVE_STORE(q, to)                                                                                     \
    "vadd.i32 " q ", " q ", r5\n"                                                                                      \
    "vmax.s32 " q ", " q ", q2\n"                                                                                      \
    "vmin.s32 " q ", " q ", q3\n"                                                                                      \
    "vstrb.32 " q ", [" to "], #4\n"

/* Channels from `stream` to `end`, in fours. */
static void conv2d_s8_mve_channels(conv2d_s8_mve_block *block) {
    __asm__ volatile(
        ".set ge_steps, " CONV2D_S8_MVE_NUMBER(CONV2D_S8_MVE_STEPS) "\n"
        "push {r7, r11}\n"
        "mov r7, %[block]\n"
        "ldr r9, [r7, #28]\n"
        "ldrd r12, r11, [r7, #32]\n"
        "1:\n" /* four channels */
        CONV2D_S8_MVE_PASS("2", "0")
        CONV2D_S8_MVE_PASS("3", "1")
        "vldrw.u32 q0, [r9], #16\n"
        "vadd.i32 q5, q5, q0\n"
        "vadd.i32 q6, q6, q0\n"
        "vadd.i32 q7, q7, q0\n"
        GE_MVE_LAW_LOAD("r9", "r1")
        GE_MVE_LAW_SCALE("q5", "r1")
        GE_MVE_LAW_SCALE("q6", "r1")
        GE_MVE_LAW_SCALE("q7", "r1")
        "vldrw.u32 q2, [r7, #40]\n"
        "vldrw.u32 q3, [r7, #56]\n"
        "ldrd r0, r2, [r7, #12]\n"
        "ldrd r4, r5, [r7, #20]\n"
        CONV2D_S8_MVE_STORE("q5", "r0")
        CONV2D_S8_MVE_STORE("q6", "r2")
        CONV2D_S8_MVE_STORE("q7", "r4")
        "strd r0, r2, [r7, #12]\n"
        "str r4, [r7, #20]\n"
        "cmp r9, r12\n"
        "bne.w 1b\n"
        "pop {r7, r11}\n"
        :
        : [block] "r"(block)
        : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q5", "q6",
          "q7", "cc", "memory");
}

/* clang-format on */

/* The last one to three channels go by way of a buffer. */
static void conv2d_s8_mve_rest(conv2d_s8_mve_block *block, int32_t channels) {
    conv2d_s8_mve_block last = *block;
    int8_t four[3][4];
    last.stream = block->end;
    last.end = last.stream + block->group;
    for (int32_t i = 0; i < 3; i++) {
        last.out[i] = four[i];
    }
    conv2d_s8_mve_channels(&last);
    for (int32_t i = 0; i < 3; i++) {
        memcpy(block->out[i], four[i], (size_t)channels);
    }
}

/* The outputs of the three pixels. */
static void conv2d_s8_mve_run(conv2d_s8_mve_block *block, int32_t channels) {
    if (block->stream != block->end) {
        conv2d_s8_mve_channels(block);
    }
    if (channels % 4 != 0) {
        conv2d_s8_mve_rest(block, channels % 4);
    }
}

/* `pixels` windows in scratch, each in one piece; the first one is `offset` bytes right of column 0, the next `step`. */
static void conv2d_s8_mve_windows(const ge_mve_taps *s, int32_t run, int32_t offset, int32_t step, int8_t *to,
                                  int32_t window, int32_t pixels) {
    const int8_t *const *const end = s->taps + s->count;
    for (const int8_t *const *tap = s->taps; tap < end; tap++) {
        const int8_t *from = *tap + offset;
        int8_t *at = to;
        int32_t left = pixels;
        __asm__ volatile("1:\n"
                         "mov r1, %[from]\n"
                         "mov r2, %[at]\n"
                         "dlstp.8 lr, %[run]\n"
                         "2:\n"
                         "vldrb.8 q0, [r1], #16\n"
                         "vstrb.8 q0, [r2], #16\n"
                         "letp lr, 2b\n"
                         "add %[from], %[from], %[step]\n"
                         "add %[at], %[at], %[window]\n"
                         "subs %[left], %[left], #1\n"
                         "bne 1b\n"
                         : [from] "+&r"(from), [at] "+&r"(at), [left] "+&r"(left)
                         : [step] "r"(step), [window] "r"(window), [run] "r"(run)
                         : "r1", "r2", "lr", "q0", "cc", "memory");
        to += run;
    }
}

static conv2d_s8_mve_block conv2d_s8_mve_prepare(const ge_conv2d_params *p, const int8_t *stream) {
    conv2d_s8_mve_block block;
    block.held = 0;
    block.window = (p->kernel_h * p->kernel_w * p->in_c + 15) / 16 * 16;
    block.group = 4 * block.window + 16 + 16 * GE_MVE_LAW_VECTORS;
    block.stream = stream;
    block.end = stream + p->out_c / 4 * block.group;
    block.more_steps = block.window / 16 - 1;
    block.zero_point = p->out_zero_point;
    for (int32_t i = 0; i < 4; i++) {
        block.lo[i] = p->lo;
        block.hi[i] = p->hi;
    }
    return block;
}

/* Three pixels of one row, the first of them `offset` bytes right of column 0. */
static void conv2d_s8_mve_three(const ge_conv2d_params *p, const ge_mve_taps *s, conv2d_s8_mve_block *block,
                                int32_t offset, int8_t *o, int8_t *windows, int32_t run) {
    const int32_t in_place = s->count == 1 && run == block->window;
    const int32_t step = p->stride_w * p->in_c;
    const int8_t *at = in_place ? s->taps[0] + offset : windows;
    const int32_t pitch = in_place ? step : block->window;
    if (!in_place) {
        conv2d_s8_mve_windows(s, run, offset, step, windows, block->window, 3);
    }
    block->x[0] = at;
    block->x[1] = at + pitch;
    block->x[2] = at + 2 * pitch;
    block->out[0] = o;
    block->out[1] = o + p->out_c;
    block->out[2] = o + 2 * p->out_c;
    conv2d_s8_mve_run(block, p->out_c);
}

/* A pixel of a block that spans rows. */
static void conv2d_s8_mve_hold(conv2d_s8_mve_block *block, const int8_t *x, int8_t *out, int32_t channels) {
    block->x[block->held] = x;
    block->out[block->held] = out;
    block->held++;
    if (block->held == 3) {
        conv2d_s8_mve_run(block, channels);
        block->held = 0;
    }
}

/* One row of output: pixels that complete the last block of the row before, threes, and what is left of this row. */
static void conv2d_s8_mve_row(const ge_conv2d_params *p, const ge_mve_taps *s, conv2d_s8_mve_block *block, int8_t *o,
                              int8_t *windows, int32_t run) {
    const int32_t step = p->stride_w * p->in_c;
    int32_t offset = 0;
    for (int32_t left = p->out_w; left > 0;) {
        if (block->held == 0 && left >= 3) {
            conv2d_s8_mve_three(p, s, block, offset, o, windows, run);
            offset += 3 * step;
            o += 3 * p->out_c;
            left -= 3;
            continue;
        }
        int8_t *const to = windows + block->held * block->window;
        conv2d_s8_mve_windows(s, run, offset, step, to, block->window, 1);
        conv2d_s8_mve_hold(block, to, o, p->out_c);
        offset += step;
        o += p->out_c;
        left--;
    }
}

static void ge_conv2d_s8_mve(const ge_conv2d_params *p, const ge_rows *x, const int8_t *stream, const ge_rows *out,
                             int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t across = p->dilation_w == 1 ? 1 : p->kernel_w;
    const int32_t run = p->kernel_w / across * p->in_c;
    conv2d_s8_mve_block block = conv2d_s8_mve_prepare(p, stream);
    int8_t *const windows = (int8_t *)scratch;
    ge_mve_taps taps = ge_mve_open(p, across, windows + 3 * block.window);
    for (int32_t y = first_row; y < last_row; y++) {
        ge_mve_point(p, x, &taps, y);
        conv2d_s8_mve_row(p, &taps, &block, (int8_t *)ge_row(out, y), windows, run);
    }
    if (block.held > 0) {
        const int8_t *const last = block.x[0];
        int8_t *const to = block.out[0];
        while (block.held > 0) {
            conv2d_s8_mve_hold(&block, last, to, p->out_c);
        }
    }
}
