/* Convolution 3x3 with a stride across of 1 and 16, 32 or 48 channels in, in any law: Helium.
 *
 * Three neighbouring pixels by two channels at a time: five columns of the input meet the three of the kernel, so that for
 * 16 inputs of a row 5 loads of columns and 6 of weights serve 18 VMLADAVA: 288 MACs in 29 instructions, unrolled. Two
 * passes make four channels. Where three does not divide the width, the last three pixels begin earlier.
 *
 *   r0 r2 | r4 r6 | r8 r10  sums of pixel 0, 1, 2          r1 row      r7 the block
 *   r9  the stream: weights in reading order, then four biases and the words of the law; r12 its end, r11 zero point
 *   q0-q5 weights of a row of the kernel, q6 q7 columns; then q0-q3 constants, q5-q7 four outputs of each pixel
 *
 * Measured, instructions under QEMU: 3x3 16->16 32x32 332,547 (0.14 per MAC); 3x3 32->32 16x16 309,270 (0.13).
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_mve.h"
#include "ge_mve_law.h"
#include "ge_mve_taps.h"
#include "ge_params.h"

#define CONV2D3X3_S8_MVE_DEPTH 16 /* channels in: 16, 32 or 48 */

#define CONV2D3X3_S8_MVE_TEXT(x) #x
#define CONV2D3X3_S8_MVE_NUMBER(x) CONV2D3X3_S8_MVE_TEXT(x)

/* Offsets of bytes reach from -127 to 127: rows are pointed at so far from their start. */
#define CONV2D3X3_S8_MVE_SHIFT (CONV2D3X3_S8_MVE_DEPTH == 16 ? 0 : (CONV2D3X3_S8_MVE_DEPTH == 32 ? 64 : 112))

typedef struct {
    const int8_t *rows[3]; /* 0: of the kernel, at the first column */
    int8_t *out[3];        /* 12: where the outputs go; moves on */
    const int8_t *stream;  /* 24: from here */
    const int8_t *end;     /* 28: to there */
    int32_t zero_point;    /* 32 */
    int32_t sums[12];      /* 36: four of each pixel */
    int32_t lo[4];         /* 84 */
    int32_t hi[4];         /* 100 */
} conv2d3x3_s8_mve_block;

/* clang-format off */

/* Column `j` of the 16 channels `v` from r1 on, into `q`. */
#define CONV2D3X3_S8_MVE_COLUMN(q, j, v) \
    "vldrb.8 " q ", [r1, #(" #j " * ge_depth + 16 * " v " - ge_shift)]\n"

#define CONV2D3X3_S8_MVE_WEIGHTS(a, b) \
    "vldrb.8 " a ", [r9], #16\n" \
    "vldrb.8 " b ", [r9], #16\n"

/* Column `x` with a column of the kernel `a`, `b`, to two sums. */
#define CONV2D3X3_S8_MVE_MAC(how, sum, next, a, b, x) \
    "vmladav" how ".s8 " sum ", " a ", " x "\n" \
    "vmladav" how ".s8 " next ", " b ", " x "\n"

/* 16 channels of one row of the kernel; `how`: "" where the sums begin, else "a". */
#define CONV2D3X3_S8_MVE_STEP(how, v) \
    CONV2D3X3_S8_MVE_WEIGHTS("q0", "q1") \
    CONV2D3X3_S8_MVE_COLUMN("q6", 0, v) \
    CONV2D3X3_S8_MVE_MAC(how, "r0", "r2", "q0", "q1", "q6") \
    CONV2D3X3_S8_MVE_COLUMN("q7", 1, v) \
    CONV2D3X3_S8_MVE_WEIGHTS("q2", "q3") \
    CONV2D3X3_S8_MVE_MAC(how, "r4", "r6", "q0", "q1", "q7") \
    CONV2D3X3_S8_MVE_MAC("a", "r0", "r2", "q2", "q3", "q7") \
    CONV2D3X3_S8_MVE_COLUMN("q6", 2, v) \
    CONV2D3X3_S8_MVE_WEIGHTS("q4", "q5") \
    CONV2D3X3_S8_MVE_MAC(how, "r8", "r10", "q0", "q1", "q6") \
    CONV2D3X3_S8_MVE_MAC("a", "r4", "r6", "q2", "q3", "q6") \
    CONV2D3X3_S8_MVE_MAC("a", "r0", "r2", "q4", "q5", "q6") \
    CONV2D3X3_S8_MVE_COLUMN("q7", 3, v) \
    CONV2D3X3_S8_MVE_MAC("a", "r8", "r10", "q2", "q3", "q7") \
    CONV2D3X3_S8_MVE_MAC("a", "r4", "r6", "q4", "q5", "q7") \
    CONV2D3X3_S8_MVE_COLUMN("q6", 4, v) \
    CONV2D3X3_S8_MVE_MAC("a", "r8", "r10", "q4", "q5", "q6")

/* Sums of two channels. */
#define CONV2D3X3_S8_MVE_PASS(first, second, third) \
    "ldr r1, [r7]\n" \
    CONV2D3X3_S8_MVE_STEP("", "0") \
    ".irp v, 1, 2\n" \
    ".if \\v < ge_depth / 16\n" \
    CONV2D3X3_S8_MVE_STEP("a", "\\v") \
    ".endif\n" \
    ".endr\n" \
    ".irp row, 4, 8\n" \
    "ldr r1, [r7, #\\row]\n" \
    ".irp v, 0, 1, 2\n" \
    ".if \\v < ge_depth / 16\n" \
    CONV2D3X3_S8_MVE_STEP("a", "\\v") \
    ".endif\n" \
    ".endr\n" \
    ".endr\n" \
    "strd r0, r2, [r7, #" first "]\n" \
    "strd r4, r6, [r7, #" second "]\n" \
    "strd r8, r10, [r7, #" third "]\n"

/* Four outputs in `q`, to the address in `to`. */
#define CONV2D3X3_S8_MVE_STORE(q, to) \
    "vadd.i32 " q ", " q ", r11\n" \
    "vmax.s32 " q ", " q ", q2\n" \
    "vmin.s32 " q ", " q ", q3\n" \
    "vstrb.32 " q ", [" to "], #4\n"

/* All channels of three pixels. */
static void conv2d3x3_s8_mve_channels(conv2d3x3_s8_mve_block *block) {
    __asm__ volatile(
        ".set ge_depth, " CONV2D3X3_S8_MVE_NUMBER(CONV2D3X3_S8_MVE_DEPTH) "\n"
        ".set ge_shift, %c[shift]\n"
        "push {r7, r11}\n"
        "mov r7, %[block]\n"
        "ldr r9, [r7, #24]\n"
        "ldrd r12, r11, [r7, #28]\n"
        "1:\n" /* four channels */
        CONV2D3X3_S8_MVE_PASS("36", "52", "68")
        CONV2D3X3_S8_MVE_PASS("44", "60", "76")
        "vldrw.u32 q5, [r7, #36]\n"
        "vldrw.u32 q6, [r7, #52]\n"
        "vldrw.u32 q7, [r7, #68]\n"
        "vldrw.u32 q0, [r9], #16\n"
        "vadd.i32 q5, q5, q0\n"
        "vadd.i32 q6, q6, q0\n"
        "vadd.i32 q7, q7, q0\n"
        GE_MVE_LAW_LOAD("r9", "r1")
        GE_MVE_LAW_SCALE("q5", "r1")
        GE_MVE_LAW_SCALE("q6", "r1")
        GE_MVE_LAW_SCALE("q7", "r1")
        "vldrw.u32 q2, [r7, #84]\n"
        "vldrw.u32 q3, [r7, #100]\n"
        "ldrd r0, r2, [r7, #12]\n"
        "ldr r4, [r7, #20]\n"
        CONV2D3X3_S8_MVE_STORE("q5", "r0")
        CONV2D3X3_S8_MVE_STORE("q6", "r2")
        CONV2D3X3_S8_MVE_STORE("q7", "r4")
        "strd r0, r2, [r7, #12]\n"
        "str r4, [r7, #20]\n"
        "cmp r9, r12\n"
        "bne.w 1b\n"
        "pop {r7, r11}\n"
        :
        : [block] "r"(block), [shift] "i"(CONV2D3X3_S8_MVE_SHIFT)
        : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5",
          "q6", "q7", "cc", "memory");
}

/* clang-format on */

static conv2d3x3_s8_mve_block conv2d3x3_s8_mve_prepare(const ge_conv2d_params *p, const int8_t *stream) {
    conv2d3x3_s8_mve_block block;
    block.stream = stream;
    block.end = stream + p->out_c * (9 * CONV2D3X3_S8_MVE_DEPTH + 4 + 4 * GE_MVE_LAW_VECTORS);
    block.zero_point = p->out_zero_point;
    for (int32_t i = 0; i < 4; i++) {
        block.lo[i] = p->lo;
        block.hi[i] = p->hi;
    }
    return block;
}

static void ge_conv2d3x3_s8_mve(const ge_conv2d_params *p, const ge_rows *x, const int8_t *stream, const ge_rows *out,
                                int32_t first_row, int32_t last_row, void *scratch) {
    conv2d3x3_s8_mve_block block = conv2d3x3_s8_mve_prepare(p, stream);
    ge_mve_taps taps = ge_mve_open(p, 1, scratch);
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        ge_mve_point(p, x, &taps, y);
        for (int32_t ox = 0; ox < p->out_w; ox += 3) {
            const int32_t first = ox < p->out_w - 3 ? ox : p->out_w - 3;
            for (int32_t i = 0; i < 3; i++) {
                block.rows[i] = taps.taps[i] + first * CONV2D3X3_S8_MVE_DEPTH + CONV2D3X3_S8_MVE_SHIFT;
                block.out[i] = o + (first + i) * p->out_c;
            }
            conv2d3x3_s8_mve_channels(&block);
        }
    }
}
