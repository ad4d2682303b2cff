/* 3x3 convolution with a horizontal stride of 1 and 16, 32 or 48 input channels, for any law: Helium.
 *
 * It computes three neighbouring pixels by two channels at a time. Their windows span five columns of the input, so for
 * 16 inputs of a row, 5 loads of columns and 6 of weights serve 18 VMLADAVA: 288 MACs in 29 instructions, unrolled. Two
 * passes make four channels. Where three does not divide the width, the last three pixels overlap those before.
 *
 *   r0 r2 | r4 r6 | r8 r10  sums of pixel 0, 1, 2          r1 where the outputs of pixel 0 go, r5 channels out
 *   r7 r11 r12  rows of the kernel
 *   r9  the stream: weights in reading order, then four biases and the requantization words
 *   r3 the block                            lr  groups of four channels
 *   q0-q5 weights of a row of the kernel, q6 q7 columns; then q0-q3 constants, q7 q5 q6 four outputs of pixel 0, 1, 2
 *
 * Measured, instructions under QEMU: 3x3 16->16 32x32 304,679 (0.13 per MAC); 3x3 32->32 16x16 298,345 (0.13).
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_mve.h"
#include "ge_mve_law.h"
#include "ge_mve_taps.h"
#include "ge_params.h"

#define CONV2D3X3_S8_MVE_DEPTH 16 /* channels in: 16, 32 or 48 */
#define CONV2D3X3_S8_MVE_CLAMP 1  /* 0: the limits are those of int8 */

#define CONV2D3X3_S8_MVE_TEXT(x) #x
#define CONV2D3X3_S8_MVE_NUMBER(x) CONV2D3X3_S8_MVE_TEXT(x)

/* Byte offsets reach from -127 to 127, so the row pointers point this far past the start of their rows. */
#define CONV2D3X3_S8_MVE_SHIFT (CONV2D3X3_S8_MVE_DEPTH == 16 ? 0 : (CONV2D3X3_S8_MVE_DEPTH == 32 ? 64 : 112))

typedef struct {
    const int8_t *rows[3]; /* 0: rows of the kernel, at the first column */
    int8_t *out;           /* 12 */
    int32_t channels;      /* 16: out */
    int32_t blocks;        /* 20: to compute; counts down */
    const int8_t *stream;  /* 24 */
    int32_t groups;        /* 28: of four channels */
    int32_t zero_point;    /* 32 */
    int32_t lo, hi;        /* 36, 40 */
    int32_t saved[2];      /* 44: r7 and r11, which a compiler may want to keep */
    int32_t sums[12];      /* 52: four of each pixel */
} conv2d3x3_s8_mve_block;

/* clang-format off */

/* Loads column `j` of the 16 channels numbered `v` of `row` into `q`. */
#define CONV2D3X3_S8_MVE_COLUMN(q, j, row, v) \
    "vldrb.8 " q ", [" row ", #(" #j " * ge_depth + 16 * " v " - ge_shift)]\n"

/* Loads column 0 of the step that follows the channels `v` of `row`: the next channels, or the first ones of row
 * `then`. */
#define CONV2D3X3_S8_MVE_NEXT(q, row, v, then) \
    ".if " v " + 1 < ge_depth / 16\n" \
    CONV2D3X3_S8_MVE_COLUMN(q, 0, row, "(" v " + 1)") \
    ".else\n" \
    CONV2D3X3_S8_MVE_COLUMN(q, 0, then, "0") \
    ".endif\n"

#define CONV2D3X3_S8_MVE_MAC(how, sum, a, x) "vmladav" how ".s8 " sum ", " a ", " x "\n"

#define CONV2D3X3_S8_MVE_WEIGHTS(q) "vldrb.8 " q ", [r9], #16\n"

/* Multiplies 16 channels of one row of the kernel. `how` is "" where the sums begin, else "a". VLDRB and VMLADAV use
 * separate pipes for two cycles each, so they alternate, and the first loads are made in the step before: q0 and column
 * 0, in `x`, are already loaded. ge_begins and ge_ends mark the first and last step of a pass; ge_pass is 0 or 1. */
#define CONV2D3X3_S8_MVE_MACS(how, row, v, then, x, y) \
    CONV2D3X3_S8_MVE_MAC(how, "r0", "q0", x) \
    CONV2D3X3_S8_MVE_WEIGHTS("q1") \
    CONV2D3X3_S8_MVE_MAC(how, "r2", "q1", x) \
    CONV2D3X3_S8_MVE_COLUMN(y, 1, row, v) \
    CONV2D3X3_S8_MVE_MAC(how, "r4", "q0", y) \
    CONV2D3X3_S8_MVE_WEIGHTS("q2") \
    CONV2D3X3_S8_MVE_MAC(how, "r6", "q1", y) \
    CONV2D3X3_S8_MVE_WEIGHTS("q3") \
    CONV2D3X3_S8_MVE_MAC("a", "r0", "q2", y) \
    CONV2D3X3_S8_MVE_COLUMN(x, 2, row, v) \
    CONV2D3X3_S8_MVE_MAC("a", "r2", "q3", y) \
    ".if ge_begins && ge_pass == 1\n" \
    "strd r8, r10, [r3, #84]\n" \
    ".endif\n" \
    CONV2D3X3_S8_MVE_WEIGHTS("q4") \
    CONV2D3X3_S8_MVE_MAC(how, "r8", "q0", x) \
    CONV2D3X3_S8_MVE_WEIGHTS("q5") \
    CONV2D3X3_S8_MVE_MAC(how, "r10", "q1", x) \
    CONV2D3X3_S8_MVE_COLUMN(y, 3, row, v) \
    CONV2D3X3_S8_MVE_MAC("a", "r4", "q2", x) \
    CONV2D3X3_S8_MVE_MAC("a", "r6", "q3", x) \
    CONV2D3X3_S8_MVE_MAC("a", "r0", "q4", x) \
    CONV2D3X3_S8_MVE_MAC("a", "r2", "q5", x) \
    CONV2D3X3_S8_MVE_COLUMN(x, 4, row, v) \
    CONV2D3X3_S8_MVE_MAC("a", "r8", "q2", y) \
    CONV2D3X3_S8_MVE_MAC("a", "r10", "q3", y) \
    ".if ge_ends\n" \
    "strd r0, r2, [r3, #(52 + 8 * ge_pass)]\n" \
    ".endif\n" \
    CONV2D3X3_S8_MVE_MAC("a", "r4", "q4", y) \
    CONV2D3X3_S8_MVE_MAC("a", "r6", "q5", y) \
    ".if ge_ends && ge_pass == 1\n" \
    "vldrw.u32 q0, [r9], #16\n" /* biases */ \
    ".else\n" \
    CONV2D3X3_S8_MVE_NEXT(y, row, v, then) \
    ".endif\n" \
    CONV2D3X3_S8_MVE_MAC("a", "r8", "q4", x) \
    ".if !(ge_ends && ge_pass == 1)\n" \
    CONV2D3X3_S8_MVE_WEIGHTS("q0") \
    ".endif\n" \
    ".if ge_ends\n" \
    "strd r4, r6, [r3, #(68 + 8 * ge_pass)]\n" \
    ".endif\n" \
    CONV2D3X3_S8_MVE_MAC("a", "r10", "q5", x)

/* Steps alternate between q6 and q7 for column 0. */
#define CONV2D3X3_S8_MVE_STEP(how, row, v, then) \
    ".if ge_turn\n" \
    CONV2D3X3_S8_MVE_MACS(how, row, v, then, "q7", "q6") \
    ".else\n" \
    CONV2D3X3_S8_MVE_MACS(how, row, v, then, "q6", "q7") \
    ".endif\n" \
    ".set ge_turn, !ge_turn\n" \
    ".set ge_begins, 0\n"

/* All channels of one row of the kernel; `then` is the next row. */
#define CONV2D3X3_S8_MVE_ROW(how, row, then, ends) \
    ".set ge_ends, " ends " && ge_depth == 16\n" \
    CONV2D3X3_S8_MVE_STEP(how, row, "0", then) \
    ".irp v, 1, 2\n" \
    ".if \\v < ge_depth / 16\n" \
    ".set ge_ends, " ends " && \\v + 1 == ge_depth / 16\n" \
    CONV2D3X3_S8_MVE_STEP("a", row, "\\v", then) \
    ".endif\n" \
    ".endr\n"

/* Computes the sums of two channels. */
#define CONV2D3X3_S8_MVE_PASS(pass) \
    ".set ge_pass, " pass "\n" \
    ".set ge_begins, 1\n" \
    CONV2D3X3_S8_MVE_ROW("", "r7", "r11", "0") \
    CONV2D3X3_S8_MVE_ROW("a", "r11", "r12", "0") \
    CONV2D3X3_S8_MVE_ROW("a", "r12", "r7", "1")

/* Clamps to limits other than those of int8. */
#define CONV2D3X3_S8_MVE_LIMITS \
    "ldrd r0, r6, [r3, #36]\n" \
    "vdup.8 q0, r0\n" \
    "vdup.8 q1, r6\n" \
    "vmax.s8 q5, q5, q0\n" \
    "vmin.s8 q5, q5, q1\n" \
    "vmax.s8 q7, q7, q0\n" \
    "vmin.s8 q7, q7, q1\n"

/* Computes all channels of blocks of three pixels. */
static void conv2d3x3_s8_mve_channels(conv2d3x3_s8_mve_block *block) {
    __asm__ volatile(
        ".set ge_depth, " CONV2D3X3_S8_MVE_NUMBER(CONV2D3X3_S8_MVE_DEPTH) "\n"
        ".set ge_shift, %c[shift]\n"
        ".set ge_clamped, " CONV2D3X3_S8_MVE_NUMBER(CONV2D3X3_S8_MVE_CLAMP) "\n"
        "mov r3, %[block]\n"
        "strd r7, r11, [r3, #44]\n"
        "ldrd r7, r11, [r3]\n"
        "ldrd r12, r1, [r3, #8]\n"
        "ldr r5, [r3, #16]\n"
        "0:\n" /* a block */
        "ldrd r9, lr, [r3, #24]\n"
        "dls lr, lr\n"
        "1:\n" /* four channels */
        ".set ge_turn, 0\n"
        CONV2D3X3_S8_MVE_WEIGHTS("q0")
        CONV2D3X3_S8_MVE_COLUMN("q6", 0, "r7", "0")
        CONV2D3X3_S8_MVE_PASS("0")
        CONV2D3X3_S8_MVE_PASS("1")
        "vldrw.u32 q7, [r3, #52]\n"
        "vadd.i32 q7, q7, q0\n"
        "vldrw.u32 q5, [r3, #68]\n"
        "strd r8, r10, [r3, #92]\n"
        "add r2, r1, r5\n"
        "add r4, r2, r5\n"
        GE_MVE_LAW_OUTPUTS("q0", "r9", "r0", "vldrw.u32 q6, [r3, #84]\n", "ldr r0, [r3, #32]\n")
        ".if ge_clamped\n"
        CONV2D3X3_S8_MVE_LIMITS
        ".endif\n"
        "vstrb.32 q7, [r1], #4\n"
        "vshr.u32 q6, q5, #16\n"
        "vstrb.32 q5, [r2]\n"
        "vstrb.32 q6, [r4]\n"
        "le lr, 1b\n"
        "add r7, r7, #(3 * ge_depth)\n"
        "add r11, r11, #(3 * ge_depth)\n"
        "add r12, r12, #(3 * ge_depth)\n"
        "add r1, r1, r5, lsl #1\n"
        "ldr r0, [r3, #20]\n"
        "subs r0, r0, #1\n"
        "str r0, [r3, #20]\n"
        "bne.w 0b\n"
        "ldrd r7, r11, [r3, #44]\n"
        :
        : [block] "r"(block), [shift] "i"(CONV2D3X3_S8_MVE_SHIFT)
        : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5",
          "q6", "q7", "cc", "memory");
}

/* clang-format on */

/* Computes `blocks` blocks, from pixel `first` on. */
static void conv2d3x3_s8_mve_run(conv2d3x3_s8_mve_block *block, const ge_mve_taps *s, int8_t *o, int32_t first,
                                 int32_t blocks) {
    for (int32_t i = 0; i < 3; i++) {
        block->rows[i] = s->taps[i] + first * CONV2D3X3_S8_MVE_DEPTH + CONV2D3X3_S8_MVE_SHIFT;
    }
    block->out = o + first * block->channels;
    block->blocks = blocks;
    conv2d3x3_s8_mve_channels(block);
}

static void ge_conv2d3x3_s8_mve(const ge_conv2d_params *p, const ge_rows *x, const int8_t *stream, const ge_rows *out,
                                int32_t first_row, int32_t last_row, void *scratch) {
    conv2d3x3_s8_mve_block *const block = (conv2d3x3_s8_mve_block *)scratch;
    ge_mve_taps taps = ge_mve_open(p, 1, block + 1);
    block->channels = p->out_c;
    block->stream = stream;
    block->groups = p->out_c / 4;
    block->zero_point = p->out_zero_point;
    block->lo = p->lo;
    block->hi = p->hi;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        ge_mve_point(p, x, &taps, y);
        conv2d3x3_s8_mve_run(block, &taps, o, 0, p->out_w / 3);
        if (p->out_w % 3 != 0) {
            conv2d3x3_s8_mve_run(block, &taps, o, p->out_w - 3, 1);
        }
    }
}
