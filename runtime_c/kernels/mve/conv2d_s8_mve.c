/* Convolution of int8 [H, W, C] with int8 weights for any law, also with asymmetric weights: Helium.
 *
 * It computes three pixels by four channels at a time. The windows of the pixels lie in scratch, each contiguous and
 * rounded up to 16 bytes (a 1x1 kernel reads three pixels of one row in place when in_c is a multiple of 16); weights
 * beyond the window are zeros, so the bytes after it do not matter. There are two passes, channels 0 and 2, then 1 and
 * 3: for 16 channels of input each step takes 2 loads of weights, 3 of pixels and 6 VMLADAVA, 96 MACs in 11
 * instructions and the LE. The passes pair channels that are two apart because VMOV writes lanes two apart from two
 * registers.
 *
 *   r0 r2 | r4 r6 | r8 r10  sums of pixel 0, 1, 2 (VMLADAVA wants even registers)
 *   r1 r3 r5  where their outputs go   r7 r11 r12  their windows
 *   r9  the stream: weights in reading order, then four biases and the requantization words
 *   lr  groups of four channels; in a loop over steps it counts steps, and r9 tells where the stream ends
 *   q0 q1 weights, q2 q3 pixels, q7 q5 q6 four outputs of pixel 0, 1, 2; then q2 biases, q0-q3 constants of the law
 *   q4  the address of the block, and the zero point
 *
 * All windows of a block are copied or read before its outputs are written, so a block may span rows.
 *
 * A layer with groups is computed in parts: one after the other for three pixels, each with windows of its own. A part
 * has the channels of one group, or of several with zeros as weights between them where this takes fewer steps.
 *
 * Measured, instructions under QEMU: 1x1 64->64 25x5 78,478 (0.15 per MAC); 10x4 1->64 25x5 86,197 (0.27); 3x3 64->64
 * 8x8 316,625 (0.13); 3x3 3->16 32x32 169,364 (0.38).
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_mve.h"
#include "ge_mve_law.h"
#include "ge_mve_piece.h"
#include "ge_mve_taps.h"
#include "ge_params.h"

#define CONV2D_S8_MVE_STEPS 0 /* steps of 16 inputs, unrolled; 0: a loop */
#define CONV2D_S8_MVE_CLAMP 1 /* 0: the limits are those of int8 */
#define CONV2D_S8_MVE_PARTS 1 /* parts of the channels */
#define CONV2D_S8_MVE_SUMS 0  /* 1: the law needs the sums of the pixels' inputs (ge_mve_law_aw.h) */

#define CONV2D_S8_MVE_TEXT(x) #x
#define CONV2D_S8_MVE_NUMBER(x) CONV2D_S8_MVE_TEXT(x)

/* Byte offsets reach only to 127: with nine steps, window pointers point past the first 16 bytes. */
#define CONV2D_S8_MVE_SHIFT (CONV2D_S8_MVE_STEPS > 8 ? 16 : 0)

typedef struct {
    const int8_t *x[3];                        /* 0: the windows */
    int8_t *out[3];                            /* 12: where the outputs go */
    const int8_t *stream;                      /* 24: from here on */
    int32_t groups;                            /* 28: of four channels */
    int32_t zero_point;                        /* 32 */
    int32_t singles;                           /* 36: steps after the first one and before the groups of four */
    int32_t fours;                             /* 40: groups of four steps */
    const int8_t *end;                         /* 44: end of the stream */
    int32_t lo, hi;                            /* 48, 52 */
    int32_t step;                              /* 56: bytes from the windows of a block to those of the next */
    int32_t skip;                              /* 60 */
    int32_t blocks;                            /* 64: to compute; counts down */
    int32_t saved[2 + 3 * CONV2D_S8_MVE_SUMS]; /* 68: r7 and r11, which a compiler may want to keep; 76: the sums */
    int32_t held;                              /* pixels held so far, 0..2 */
    int32_t window;                            /* bytes of a window, whole vectors */
    int32_t group;                             /* bytes of the stream for four channels */
} conv2d_s8_mve_block;

/* clang-format off */

/* Multiplies 16 inputs of all pixels by two channels. VLDRB, VMLADAV and VADD use separate pipes for two cycles each,
 * so they alternate, and the first loads of a step are made in the one before (`ahead`): q0 and `a` are already loaded.
 * `how` is "" where the sums begin, else "a"; the pixels' vectors are at offset `at` from r7, r11, r12, and the first
 * vector of the next step at offset `next` from r7. ge_lanes: in the second pass, the first step also moves the sums of
 * the first pass to q7, q5, q6. ge_last: the last step moves the sums of the second pass and loads the biases to
 * `b`. */
#define CONV2D_S8_MVE_STEP(how, a, b, at, next) \
    ".if ge_lanes\n" \
    "vmov q7[2], q7[0], r0, r2\n" \
    ".endif\n" \
    "vmladav" how ".s8 r0, q0, " a "\n" \
    "vldrb.8 q1, [r9], #16\n" \
    "vmladav" how ".s8 r2, q1, " a "\n" \
    "vldrb.8 " b ", [r11" at "\n" \
    ".if ge_lanes\n" \
    "vmov q5[2], q5[0], r4, r6\n" \
    ".endif\n" \
    "vmladav" how ".s8 r4, q0, " b "\n" \
    "vldrb.8 " a ", [r12" at "\n" \
    ".if ge_last\n" \
    "vmov q7[3], q7[1], r0, r2\n" \
    ".endif\n" \
    "vmladav" how ".s8 r6, q1, " b "\n" \
    ".if ge_lanes\n" \
    "vmov q6[2], q6[0], r8, r10\n" \
    ".endif\n" \
    ".if ge_ahead\n" \
    "vldrb.8 " b ", [r7" next "\n" \
    ".endif\n" \
    ".if ge_last\n" \
    "vldrw.u32 " b ", [r9], #16\n" \
    "vadd.i32 q7, q7, " b "\n" \
    ".endif\n" \
    "vmladav" how ".s8 r8, q0, " a "\n" \
    ".if ge_ahead\n" \
    "vldrb.8 q0, [r9], #16\n" \
    ".endif\n" \
    ".if ge_last\n" \
    "vmov q5[3], q5[1], r4, r6\n" \
    ".endif\n" \
    "vmladav" how ".s8 r10, q1, " a "\n"

/* Makes the loads that the first step requires. */
#define CONV2D_S8_MVE_FIRST(at) \
    "vldrb.8 q0, [r9], #16\n" \
    "vldrb.8 q2, [r7" at "\n"

/* The steps of a pass written out: the windows are where they are for all channels. `first` and `second` are the registers
 * of the first step; the second pass begins where the first one has left off. */
#define CONV2D_S8_MVE_UNROLLED(first, second, pass) \
    ".set ge_lanes, " pass " - 1\n" \
    ".set ge_last, (" pass " == 2) && (ge_steps == 1)\n" \
    ".set ge_ahead, !ge_last\n" \
    ".if ge_steps == 1\n" \
    CONV2D_S8_MVE_STEP("", first, second, ", #-%c[shift]]", ", #-%c[shift]]") \
    ".else\n" \
    CONV2D_S8_MVE_STEP("", first, second, ", #-%c[shift]]", ", #(16 - %c[shift])]") \
    ".endif\n" \
    ".set ge_lanes, 0\n" \
    ".set ge_step, 1\n" \
    ".rept ge_steps - 1\n" \
    ".set ge_last, (" pass " == 2) && (ge_step == ge_steps - 1)\n" \
    ".set ge_ahead, !ge_last\n" \
    ".set ge_next, ge_step + 1\n" \
    ".if ge_next == ge_steps\n" \
    ".set ge_next, 0\n" \
    ".endif\n" \
    ".if ge_step & 1\n" \
    CONV2D_S8_MVE_STEP("a", second, first, ", #(16 * ge_step - %c[shift])]", ", #(16 * ge_next - %c[shift])]") \
    ".else\n" \
    CONV2D_S8_MVE_STEP("a", first, second, ", #(16 * ge_step - %c[shift])]", ", #(16 * ge_next - %c[shift])]") \
    ".endif\n" \
    ".set ge_step, ge_step + 1\n" \
    ".endr\n"

/* One step that stands alone. */
#define CONV2D_S8_MVE_ALONE(how) \
    CONV2D_S8_MVE_FIRST("], #16") \
    ".set ge_ahead, 0\n" \
    CONV2D_S8_MVE_STEP(how, "q2", "q3", "], #16", "")

/* Any number of steps: first one, then the singles, then the groups of four. */
#define CONV2D_S8_MVE_LOOP \
    "vmov.32 r0, q4[0]\n" \
    "ldrd r7, r11, [r0]\n" \
    "ldr r12, [r0, #8]\n" \
    "ldr lr, [r0, #36]\n" \
    ".set ge_lanes, 0\n" \
    ".set ge_last, 0\n" \
    CONV2D_S8_MVE_ALONE("") \
    "wls lr, lr, 3f\n" \
    "2:\n" \
    CONV2D_S8_MVE_ALONE("a") \
    "le lr, 2b\n" \
    "3:\n" \
    "vmov.32 lr, q4[0]\n" \
    "ldr lr, [lr, #40]\n" \
    "wls lr, lr, 5f\n" \
    "4:\n" \
    CONV2D_S8_MVE_FIRST("], #16") \
    ".set ge_ahead, 1\n" \
    CONV2D_S8_MVE_STEP("a", "q2", "q3", "], #16", "], #16") \
    CONV2D_S8_MVE_STEP("a", "q3", "q2", "], #16", "], #16") \
    CONV2D_S8_MVE_STEP("a", "q2", "q3", "], #16", "], #16") \
    ".set ge_ahead, 0\n" \
    CONV2D_S8_MVE_STEP("a", "q3", "q2", "], #16", "") \
    "le lr, 4b\n" \
    "5:\n"

/* Computes the sums of channels 0 and 2, then 1 and 3, into q7 and q5; q6, of pixel 2, lacks the last two sums, which
 * are in r8 and r10. The biases are in q2 and already added to the sums of pixel 0. */
#define CONV2D_S8_MVE_PASSES \
    ".if ge_steps > 0\n" \
    CONV2D_S8_MVE_FIRST(", #-%c[shift]]") \
    CONV2D_S8_MVE_UNROLLED("q2", "q3", "1") \
    ".if ge_steps & 1\n" \
    CONV2D_S8_MVE_UNROLLED("q3", "q2", "2") \
    ".else\n" \
    CONV2D_S8_MVE_UNROLLED("q2", "q3", "2") \
    ".endif\n" \
    ".else\n" \
    CONV2D_S8_MVE_LOOP \
    "vmov q7[2], q7[0], r0, r2\n" \
    "vmov q5[2], q5[0], r4, r6\n" \
    "vmov q6[2], q6[0], r8, r10\n" \
    CONV2D_S8_MVE_LOOP \
    "vldrw.u32 q2, [r9], #16\n" \
    "vmov q7[3], q7[1], r0, r2\n" \
    "vadd.i32 q7, q7, q2\n" \
    "vmov q5[3], q5[1], r4, r6\n" \
    ".endif\n"

/* Clamps to limits other than those of int8. */
#define CONV2D_S8_MVE_LIMITS \
    "vmov.32 r0, q4[0]\n" \
    "ldrd r0, r2, [r0, #48]\n" \
    "vdup.8 q0, r0\n" \
    "vdup.8 q1, r2\n" \
    "vmax.s8 q5, q5, q0\n" \
    "vmin.s8 q5, q5, q1\n" \
    "vmax.s8 q7, q7, q0\n" \
    "vmin.s8 q7, q7, q1\n"

/* Advances to the next block of the row, if there is one. */
#define CONV2D_S8_MVE_NEXT \
    "ldr r2, [r0, #64]\n" \
    "subs r2, r2, #1\n" \
    "beq 6f\n" \
    "str r2, [r0, #64]\n" \
    "ldrd r2, r4, [r0, #56]\n" \
    "add r7, r7, r2\n" \
    "add r11, r11, r2\n" \
    "add r12, r12, r2\n" \
    "add r1, r1, r4\n" \
    "add r3, r3, r4\n" \
    "add r5, r5, r4\n" \
    "b.w 0b\n" \
    "6:\n"

/* Computes all channels of the block, in fours, and of the blocks that follow it in the same row; with a loop over
 * steps, of this block only. */
static void conv2d_s8_mve_channels(conv2d_s8_mve_block *block) {
    __asm__ volatile(
        ".set ge_steps, " CONV2D_S8_MVE_NUMBER(CONV2D_S8_MVE_STEPS) "\n"
        ".set ge_clamped, " CONV2D_S8_MVE_NUMBER(CONV2D_S8_MVE_CLAMP) "\n"
        "mov r0, %[block]\n"
        "strd r7, r11, [r0, #68]\n"
        "ldrd r1, r3, [r0, #12]\n"
        "ldr r5, [r0, #20]\n"
        "ldr r2, [r0, #32]\n"
        "vmov q4[2], q4[0], r0, r2\n"
        "ldrd r7, r11, [r0]\n"
        "ldr r12, [r0, #8]\n"
        "0:\n" /* a block */
        "ldrd r9, lr, [r0, #24]\n"
        "dls lr, lr\n"
        "1:\n" /* four channels */
        CONV2D_S8_MVE_PASSES
        GE_MVE_LAW_OUTPUTS("q2", "r9", "r0", "vmov q6[3], q6[1], r8, r10\n", "vmov.32 r0, q4[2]\n")
        ".if ge_clamped\n"
        CONV2D_S8_MVE_LIMITS
        ".endif\n"
        "vstrb.32 q7, [r1], #4\n"
        "vshr.u32 q6, q5, #16\n"
        "vstrb.32 q5, [r3], #4\n"
        "vstrb.32 q6, [r5], #4\n"
        ".if ge_steps > 0\n"
        "le lr, 1b\n"
        "vmov.32 r0, q4[0]\n"
        CONV2D_S8_MVE_NEXT
        ".else\n"
        "vmov.32 r0, q4[0]\n"
        "ldr r2, [r0, #44]\n"
        "cmp r9, r2\n"
        "bne.w 1b\n"
        ".endif\n"
        "ldrd r7, r11, [r0, #68]\n"
        :
        : [block] "r"(block), [shift] "i"(CONV2D_S8_MVE_SHIFT)
        : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5",
          "q6", "q7", "cc", "memory");
}

/* clang-format on */

/* Computes the block's channels; the last one to three go through a buffer. */
static void conv2d_s8_mve_rest(conv2d_s8_mve_block *block, int32_t channels) {
    const int8_t *const stream = block->stream;
    const int32_t groups = block->groups;
    int8_t four[3][4];
    int8_t *out[3];
    block->stream = stream + groups * block->group;
    block->end += block->group;
    block->groups = 1;
    block->blocks = 1;
    for (int32_t i = 0; i < 3; i++) {
        out[i] = block->out[i] + 4 * groups;
        block->out[i] = four[i];
    }
    conv2d_s8_mve_channels(block);
    block->stream = stream;
    block->end -= block->group;
    block->groups = groups;
    for (int32_t i = 0; i < 3; i++) {
        ge_mve_copy(out[i], four[i], channels);
        if (CONV2D_S8_MVE_PARTS > 1) {
            block->out[i] = out[i] - 4 * groups;
        }
    }
}

/* Returns the sum of `count` numbers. */
static inline int32_t conv2d_s8_mve_sum(const int8_t *x, int32_t count) {
    register int32_t sum __asm__("r0") = 0; /* VADDVA requires an even register */
    __asm__ volatile("wlstp.8 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%[x]], #16\n"
                     "vaddva.s8 %[sum], q0\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [x] "+&r"(x), [sum] "+&r"(sum)
                     : [count] "r"(count)
                     : "lr", "q0", "memory");
    return sum;
}

/* Computes the outputs of one part for three pixels, and of `blocks` - 1 more blocks. */
static void conv2d_s8_mve_part(const ge_conv2d_params *p, conv2d_s8_mve_block *block, int32_t blocks) {
    const int32_t channels = p->out_c / CONV2D_S8_MVE_PARTS;
    block->blocks = blocks;
    for (int32_t i = 0; i < 3 * CONV2D_S8_MVE_SUMS; i++) {
        const int32_t inputs = p->kernel_h * p->kernel_w * (p->in_c / CONV2D_S8_MVE_PARTS);
        block->saved[2 + i] = conv2d_s8_mve_sum(block->x[i] - CONV2D_S8_MVE_SHIFT, inputs);
    }
    if (block->groups > 0) {
        conv2d_s8_mve_channels(block);
    }
    if (channels % 4 != 0) {
        conv2d_s8_mve_rest(block, channels % 4);
    }
}

/* Computes the outputs of three pixels, and of `blocks` - 1 more blocks. */
static void conv2d_s8_mve_run(const ge_conv2d_params *p, conv2d_s8_mve_block *block, int32_t blocks) {
    const int32_t channels = p->out_c / CONV2D_S8_MVE_PARTS;
    const int32_t bytes = (channels + 3) / 4 * block->group;
    block->held = 0;
    conv2d_s8_mve_part(p, block, blocks);
    for (int32_t part = 1; part < CONV2D_S8_MVE_PARTS; part++) {
        for (int32_t i = 0; i < 3; i++) {
            block->x[i] += block->window;
            block->out[i] += channels;
        }
        block->stream += bytes;
        block->end += bytes;
        conv2d_s8_mve_part(p, block, blocks);
    }
    block->stream -= (CONV2D_S8_MVE_PARTS - 1) * bytes;
    block->end -= (CONV2D_S8_MVE_PARTS - 1) * bytes;
}

static void conv2d_s8_mve_prepare(const ge_conv2d_params *p, const int8_t *stream, conv2d_s8_mve_block *block) {
    block->held = 0;
    block->blocks = 0;
    block->window = (p->kernel_h * p->kernel_w * (p->in_c / CONV2D_S8_MVE_PARTS) + 15) / 16 * 16;
    block->group = 4 * block->window + 16 + 16 * GE_MVE_LAW_VECTORS;
    block->stream = stream;
    block->groups = p->out_c / CONV2D_S8_MVE_PARTS / 4;
    block->end = stream + block->groups * block->group;
    block->singles = (block->window / 16 - 1) % 4;
    block->fours = (block->window / 16 - 1) / 4;
    block->zero_point = p->out_zero_point;
    block->lo = p->lo;
    block->hi = p->hi;
    block->step = 3 * p->stride_w * p->in_c;
    block->skip = 2 * p->out_c;
}

/* Adds the next `count` pixels to the block: their windows lie from `at` on, each `pitch` bytes after the one
 * before. */
static void conv2d_s8_mve_hold(const ge_conv2d_params *p, conv2d_s8_mve_block *block, const int8_t *at, int32_t pitch,
                               int8_t *o, int32_t count) {
    for (int32_t i = block->held; i < block->held + count; i++) {
        block->x[i] = at + CONV2D_S8_MVE_SHIFT;
        block->out[i] = o;
        at += pitch;
        o += p->out_c;
    }
    block->held += count;
}

/* Computes `left` pixels of an output row. Blocks of a 1x1 kernel are read in place; the windows of other kernels,
 * which may complete a block of the row before, are copied to scratch. */
static void conv2d_s8_mve_row(const ge_conv2d_params *p, const ge_mve_taps *s, conv2d_s8_mve_block *block, int8_t *o,
                              int32_t left, int8_t *windows) {
    const int32_t run = p->kernel_w / s->across * (p->in_c / CONV2D_S8_MVE_PARTS);
    const int32_t step = p->stride_w * p->in_c;
    const int32_t pitch = CONV2D_S8_MVE_PARTS * block->window;
    const int32_t whole = s->count == 1 && run == block->window;
    int32_t offset = 0;
    while (left > 0) {
        int32_t count;
        if (whole && block->held == 0 && left >= 3) {
            const int32_t alone = CONV2D_S8_MVE_PARTS == 1 && !CONV2D_S8_MVE_SUMS;
            const int32_t several = CONV2D_S8_MVE_STEPS > 0 && alone && p->out_c % 4 == 0;
            const int32_t blocks = several ? left / 3 : 1;
            conv2d_s8_mve_hold(p, block, s->taps[0] + offset, step, o, 3);
            conv2d_s8_mve_run(p, block, blocks);
            count = 3 * blocks;
        } else {
            int8_t *const to = windows + block->held * pitch;
            count = left < 3 - block->held ? left : 3 - block->held;
            for (int32_t part = 0; part < CONV2D_S8_MVE_PARTS; part++) {
                ge_mve_pieces(s, run, offset + part * run, step, to + part * block->window, pitch, count);
            }
            conv2d_s8_mve_hold(p, block, to, pitch, o, count);
            if (block->held == 3) {
                conv2d_s8_mve_run(p, block, 1);
            }
        }
        offset += count * step;
        o += count * p->out_c;
        left -= count;
    }
}

static void ge_conv2d_s8_mve(const ge_conv2d_params *p, const ge_rows *x, const int8_t *stream, const ge_rows *out,
                             int32_t first_row, int32_t last_row, void *scratch) {
    conv2d_s8_mve_block *const block = (conv2d_s8_mve_block *)scratch;
    ge_mve_taps *const taps = (ge_mve_taps *)(block + 1);
    int8_t *const windows = (int8_t *)(taps + 1);
    conv2d_s8_mve_prepare(p, stream, block);
    *taps = ge_mve_open(p, p->dilation_w == 1 && CONV2D_S8_MVE_PARTS == 1 ? 1 : p->kernel_w,
                        windows + 3 * CONV2D_S8_MVE_PARTS * block->window);
    const int32_t rows = ge_mve_flat(p, x, out, taps) ? last_row - first_row : 1;
    for (int32_t y = first_row; y < last_row; y += rows) {
        ge_mve_point(p, x, taps, y);
        conv2d_s8_mve_row(p, taps, block, (int8_t *)ge_row(out, y), rows * p->out_w, windows);
    }
    if (block->held > 0) {
        for (int32_t i = block->held; i < 3; i++) { /* repeats the last pixel */
            block->x[i] = block->x[0];
            block->out[i] = block->out[0];
        }
        conv2d_s8_mve_run(p, block, 1);
    }
}
