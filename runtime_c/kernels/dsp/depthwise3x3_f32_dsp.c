/* 3x3 depthwise convolution, stride 1, of float32 for Cortex-M4, M7, M33 and M55 with an FPU.
 *
 * It computes four channels of three or two neighbouring outputs at a time. Three rows of the input lie in scratch with
 * their padding, in slots that they take in turn; the columns of four channels are contiguous. Padding is a zero, which
 * changes no sum (conv2d_f32_dsp.c explains why).
 *
 * For three outputs: s0-s11 sums; s12-s23 the weights of a row of taps; s24-s27 inputs; s28-s31 products: 330 cycles
 * for 108 products. For two: s0-s7 sums; s8-s19 weights; s20-s23 inputs; s24-s31 products: 243 cycles for 72. r0
 * weights, r1-r3 rows. Each block takes another 50 or 45 cycles. */
#include "ge.h"
#include "ge_float.h"
#include "ge_isa_dsp_float.h"
#include "ge_params.h"

typedef struct {
    const float *w;       /* 0: for four channels: biases, then weights of each row of taps, from the left */
    const float *rows[3]; /* 4 */
    float *out;           /* 16 */
    int32_t count;        /* 20: outputs */
    int32_t step;         /* 24: bytes from output to output */
    int32_t relu;         /* 28 */
    uint32_t unbounded;   /* 32 */
    int32_t groups;       /* 36: of four channels, counts down to 0 */
} depthwise3x3_f32_dsp_job;

/* clang-format off */

/* One row of taps of two outputs. */
#define DEPTHWISE3X3_F32_DSP_ROW(row) \
    "    vldm r0!, {s8-s19}\n" \
    "    vldm " row "!, {s20-s23}\n" \
    "    vmul.f32 s24, s8, s20\n" \
    "    vmul.f32 s25, s9, s21\n" \
    "    vmul.f32 s26, s10, s22\n" \
    "    vmul.f32 s27, s11, s23\n" \
    "    vadd.f32 s0, s0, s24\n" \
    "    vadd.f32 s1, s1, s25\n" \
    "    vadd.f32 s2, s2, s26\n" \
    "    vadd.f32 s3, s3, s27\n" \
    "    vldm " row "!, {s20-s23}\n" \
    "    vmul.f32 s24, s12, s20\n" \
    "    vmul.f32 s25, s13, s21\n" \
    "    vmul.f32 s26, s14, s22\n" \
    "    vmul.f32 s27, s15, s23\n" \
    "    vmul.f32 s28, s8, s20\n" \
    "    vmul.f32 s29, s9, s21\n" \
    "    vmul.f32 s30, s10, s22\n" \
    "    vmul.f32 s31, s11, s23\n" \
    "    vadd.f32 s0, s0, s24\n" \
    "    vadd.f32 s1, s1, s25\n" \
    "    vadd.f32 s2, s2, s26\n" \
    "    vadd.f32 s3, s3, s27\n" \
    "    vadd.f32 s4, s4, s28\n" \
    "    vadd.f32 s5, s5, s29\n" \
    "    vadd.f32 s6, s6, s30\n" \
    "    vadd.f32 s7, s7, s31\n" \
    "    vldm " row "!, {s20-s23}\n" \
    "    vmul.f32 s24, s16, s20\n" \
    "    vmul.f32 s25, s17, s21\n" \
    "    vmul.f32 s26, s18, s22\n" \
    "    vmul.f32 s27, s19, s23\n" \
    "    vmul.f32 s28, s12, s20\n" \
    "    vmul.f32 s29, s13, s21\n" \
    "    vmul.f32 s30, s14, s22\n" \
    "    vmul.f32 s31, s15, s23\n" \
    "    vadd.f32 s0, s0, s24\n" \
    "    vadd.f32 s1, s1, s25\n" \
    "    vadd.f32 s2, s2, s26\n" \
    "    vadd.f32 s3, s3, s27\n" \
    "    vadd.f32 s4, s4, s28\n" \
    "    vadd.f32 s5, s5, s29\n" \
    "    vadd.f32 s6, s6, s30\n" \
    "    vadd.f32 s7, s7, s31\n" \
    "    vldm " row "!, {s20-s23}\n" \
    "    vmul.f32 s28, s16, s20\n" \
    "    vmul.f32 s29, s17, s21\n" \
    "    vmul.f32 s30, s18, s22\n" \
    "    vmul.f32 s31, s19, s23\n" \
    "    vadd.f32 s4, s4, s28\n" \
    "    vadd.f32 s5, s5, s29\n" \
    "    vadd.f32 s6, s6, s30\n" \
    "    vadd.f32 s7, s7, s31\n"

/* Multiplies one tap of one of three outputs and adds the products. */
#define DEPTHWISE3X3_F32_DSP_TAP(a, b, c, d, e, f, g, h) \
    GE_DSP_FLOAT_MUL(28, e, 24) GE_DSP_FLOAT_MUL(29, f, 25) GE_DSP_FLOAT_MUL(30, g, 26) GE_DSP_FLOAT_MUL(31, h, 27) \
    GE_DSP_FLOAT_ADD(a, 28) GE_DSP_FLOAT_ADD(b, 29) GE_DSP_FLOAT_ADD(c, 30) GE_DSP_FLOAT_ADD(d, 31)

/* One row of taps of three outputs. */
#define DEPTHWISE3X3_F32_DSP_ROW3(row) \
    "    vldm r0!, {s12-s23}\n" \
    "    vldm " row "!, {s24-s27}\n" \
    DEPTHWISE3X3_F32_DSP_TAP(0, 1, 2, 3, 12, 13, 14, 15) \
    "    vldm " row "!, {s24-s27}\n" \
    DEPTHWISE3X3_F32_DSP_TAP(0, 1, 2, 3, 16, 17, 18, 19) \
    DEPTHWISE3X3_F32_DSP_TAP(4, 5, 6, 7, 12, 13, 14, 15) \
    "    vldm " row "!, {s24-s27}\n" \
    DEPTHWISE3X3_F32_DSP_TAP(0, 1, 2, 3, 20, 21, 22, 23) \
    DEPTHWISE3X3_F32_DSP_TAP(4, 5, 6, 7, 16, 17, 18, 19) \
    DEPTHWISE3X3_F32_DSP_TAP(8, 9, 10, 11, 12, 13, 14, 15) \
    "    vldm " row "!, {s24-s27}\n" \
    DEPTHWISE3X3_F32_DSP_TAP(4, 5, 6, 7, 20, 21, 22, 23) \
    DEPTHWISE3X3_F32_DSP_TAP(8, 9, 10, 11, 16, 17, 18, 19) \
    "    vldm " row "!, {s24-s27}\n" \
    DEPTHWISE3X3_F32_DSP_TAP(8, 9, 10, 11, 20, 21, 22, 23)

/* Advances the rows by the bytes of `count` columns. */
#define DEPTHWISE3X3_F32_DSP_MOVE(bytes) \
    "    add.w r9, r1, #" bytes "\n" \
    "    add.w r4, r2, #" bytes "\n" \
    "    str.w r9, [r12, #4]\n" \
    "    str.w r4, [r12, #8]\n" \
    "    add.w r9, r3, #" bytes "\n" \
    "    str.w r9, [r12, #12]\n"

#define DEPTHWISE3X3_F32_DSP_PLAIN(to, a, b, c, d) "    vstm " to ", {" a "-" d "}\n"

#define DEPTHWISE3X3_F32_DSP_RELU(to, a, b, c, d) \
    "    vmov r1, r2, " a ", " b "\n" \
    "    vmov r3, r4, " c ", " d "\n" \
    "    bic.w r1, r1, r1, asr #31\n" \
    "    bic.w r2, r2, r2, asr #31\n" \
    "    bic.w r3, r3, r3, asr #31\n" \
    "    bic.w r4, r4, r4, asr #31\n" \
    "    stm.w " to ", {r1-r4}\n"

/* Computes all channels of an output row, four at a time. A last output that is alone is written after the one that is
 * computed with it. The sum of all outputs is finite if each of them is. */
__attribute__((noinline)) static void depthwise3x3_f32_dsp_line(depthwise3x3_f32_dsp_job *job) {
    register depthwise3x3_f32_dsp_job *r12 __asm__("r12") = job;
    __asm__ volatile(
        "10:\n"
        "    ldr.w r5, [r12, #16]\n"
        "    ldr.w r8, [r12, #20]\n"
        "    .balign 4\n"
        "1:\n"
        "    ldm.w r12, {r0-r3}\n"
        "    ldr.w r10, [r12, #24]\n"
        "    vldm r0!, {s0-s3}\n"
        "    cmp.w r8, #3\n"
        "    beq.w 6f\n"
        "    cmp.w r8, #5\n"
        "    bge.w 6f\n"
        DEPTHWISE3X3_F32_DSP_MOVE("32")
        "    mov.w r6, r5\n"
        "    cmp.w r8, #1\n"
        "    beq.w 5f\n"
        "    add.w r6, r5, r10\n"
        "5:\n"
        "    vmov.f32 s4, s0\n"
        "    vmov.f32 s5, s1\n"
        "    vmov.f32 s6, s2\n"
        "    vmov.f32 s7, s3\n"
        DEPTHWISE3X3_F32_DSP_ROW("r1")
        DEPTHWISE3X3_F32_DSP_ROW("r2")
        DEPTHWISE3X3_F32_DSP_ROW("r3")
        "    vadd.f32 s24, s0, s1\n"
        "    vadd.f32 s25, s2, s3\n"
        "    vadd.f32 s26, s4, s5\n"
        "    vadd.f32 s27, s6, s7\n"
        "    vadd.f32 s24, s24, s25\n"
        "    vadd.f32 s26, s26, s27\n"
        "    ldr.w r9, [r12, #28]\n"
        "    vadd.f32 s24, s24, s26\n"
        "    vmov r1, s24\n"
        "    lsl.w r1, r1, #1\n"
        "    cmp.w r1, #0xff000000\n"
        "    bhs.w 4f\n"
        "    cmp.w r9, #0\n"
        "    beq.w 2f\n"
        DEPTHWISE3X3_F32_DSP_RELU("r6", "s4", "s5", "s6", "s7")
        DEPTHWISE3X3_F32_DSP_RELU("r5", "s0", "s1", "s2", "s3")
        "    b.w 3f\n"
        "4:\n"
        "    mov.w r1, #1\n"
        "    str.w r1, [r12, #32]\n"
        "2:\n"
        DEPTHWISE3X3_F32_DSP_PLAIN("r6", "s4", "s5", "s6", "s7")
        DEPTHWISE3X3_F32_DSP_PLAIN("r5", "s0", "s1", "s2", "s3")
        "3:\n"
        "    add.w r5, r5, r10, lsl #1\n"
        "    subs.w r8, r8, #2\n"
        "    bgt.w 1b\n"
        "    b.w 9f\n"
        "6:\n" /* three outputs: a remainder of four is two and two, one of five is three and two */
        DEPTHWISE3X3_F32_DSP_MOVE("48")
        "    vmov.f32 s4, s0\n"
        "    vmov.f32 s5, s1\n"
        "    vmov.f32 s6, s2\n"
        "    vmov.f32 s7, s3\n"
        "    vmov.f32 s8, s0\n"
        "    vmov.f32 s9, s1\n"
        "    vmov.f32 s10, s2\n"
        "    vmov.f32 s11, s3\n"
        DEPTHWISE3X3_F32_DSP_ROW3("r1")
        DEPTHWISE3X3_F32_DSP_ROW3("r2")
        DEPTHWISE3X3_F32_DSP_ROW3("r3")
        "    vadd.f32 s24, s0, s1\n"
        "    vadd.f32 s25, s2, s3\n"
        "    vadd.f32 s26, s4, s5\n"
        "    vadd.f32 s27, s6, s7\n"
        "    vadd.f32 s24, s24, s8\n"
        "    vadd.f32 s25, s25, s9\n"
        "    vadd.f32 s26, s26, s10\n"
        "    vadd.f32 s27, s27, s11\n"
        "    vadd.f32 s24, s24, s25\n"
        "    vadd.f32 s26, s26, s27\n"
        "    ldr.w r9, [r12, #28]\n"
        "    vadd.f32 s24, s24, s26\n"
        "    vmov r1, s24\n"
        "    add.w r6, r5, r10\n"
        "    add.w r5, r6, r10\n"
        "    lsl.w r1, r1, #1\n"
        "    cmp.w r1, #0xff000000\n"
        "    bhs.w 7f\n"
        "    cmp.w r9, #0\n"
        "    beq.w 8f\n"
        DEPTHWISE3X3_F32_DSP_RELU("r5", "s8", "s9", "s10", "s11")
        DEPTHWISE3X3_F32_DSP_RELU("r6", "s4", "s5", "s6", "s7")
        "    sub.w r6, r6, r10\n"
        DEPTHWISE3X3_F32_DSP_RELU("r6", "s0", "s1", "s2", "s3")
        "    b.w 5f\n"
        "7:\n"
        "    mov.w r1, #1\n"
        "    str.w r1, [r12, #32]\n"
        "8:\n"
        DEPTHWISE3X3_F32_DSP_PLAIN("r5", "s8", "s9", "s10", "s11")
        DEPTHWISE3X3_F32_DSP_PLAIN("r6", "s4", "s5", "s6", "s7")
        "    sub.w r6, r6, r10\n"
        DEPTHWISE3X3_F32_DSP_PLAIN("r6", "s0", "s1", "s2", "s3")
        "5:\n"
        "    add.w r5, r5, r10\n"
        "    subs.w r8, r8, #3\n"
        "    bgt.w 1b\n"
        "9:\n" /* three columns are left of these channels, one fewer after a lone output */
        "    ldm.w r12, {r0-r3}\n"
        "    lsl.w r8, r8, #4\n"
        "    add.w r8, r8, #48\n"
        "    add.w r0, r0, #160\n"
        "    add.w r1, r1, r8\n"
        "    add.w r2, r2, r8\n"
        "    add.w r3, r3, r8\n"
        "    stm.w r12, {r0-r3}\n"
        "    ldr.w r5, [r12, #16]\n"
        "    ldr.w r6, [r12, #36]\n"
        "    add.w r5, r5, #16\n"
        "    str.w r5, [r12, #16]\n"
        "    subs.w r6, r6, #1\n"
        "    str.w r6, [r12, #36]\n"
        "    bne.w 10b\n"
        : "+r"(r12)
        :
        : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "cc", "memory", GE_DSP_FLOAT_REGISTERS);
}

/* clang-format on */

/* Copies `count` > 0 columns of four channels, `step` bytes apart in the input: 13 cycles each. */
static inline void depthwise3x3_f32_dsp_columns(float *to, const float *from, int32_t step, int32_t count) {
    __asm__ volatile("    .balign 4\n"
                     "1:\n"
                     "    ldm.w %[from], {r2, r3, r4, r5}\n"
                     "    add.w %[from], %[from], %[step]\n"
                     "    subs.w %[count], %[count], #1\n"
                     "    stm.w %[to]!, {r2, r3, r4, r5}\n"
                     "    bne.w 1b\n"
                     : [to] "+&r"(to), [from] "+&r"(from), [count] "+&r"(count)
                     : [step] "r"(step)
                     : "r2", "r3", "r4", "r5", "cc", "memory");
}

/* Copies input row iy into a slot, for each four channels `columns` columns. The padding beside them is already
 * there. */
static void depthwise3x3_f32_dsp_slot(const ge_conv2d_f32_params *p, const ge_rows *x, int32_t iy, int32_t columns,
                                      float *to) {
    if (iy < 0 || iy >= p->in_h) {
        memset(to, 0, (size_t)(columns * p->in_c) * sizeof *to);
        return;
    }
    const float *const row = (const float *)ge_row(x, iy);
    const int32_t room = columns - p->pad_left;
    const int32_t inside = room < p->in_w ? room : p->in_w;
    to += 4 * p->pad_left;
    for (int32_t c = 0; inside > 0 && c < p->in_c; c += 4) {
        depthwise3x3_f32_dsp_columns(to, row + c, 4 * p->in_c, inside);
        to += 4 * columns;
    }
}

static void ge_depthwise3x3_f32_dsp(const ge_conv2d_f32_params *p, const ge_rows *x, const float *stream,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t columns = p->out_w + 3;
    const int32_t slot = columns * p->out_c;
    const int32_t law = ge_dsp_float_law(p->lo, p->hi);
    int32_t next = first_row - p->pad_top; /* the next row to load */
    uint32_t unbounded = 0;
    memset(scratch, 0, (size_t)(3 * slot) * sizeof(float));
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t top = y - p->pad_top;
        for (; next < top + 3; next++) {
            depthwise3x3_f32_dsp_slot(p, x, next, columns, (float *)scratch + (next + p->pad_top) % 3 * slot);
        }
        float *const to = (float *)ge_row(out, y);
        depthwise3x3_f32_dsp_job job = {stream, {NULL}, to, p->out_w, 4 * p->out_c, law == 1, 0, p->out_c / 4};
        for (int32_t k = 0; k < 3; k++) {
            job.rows[k] = (const float *)scratch + (y + k) % 3 * slot;
        }
        depthwise3x3_f32_dsp_line(&job);
        unbounded |= job.unbounded;
    }
    if (law == 2 || unbounded != 0) {
        for (int32_t y = first_row; y < last_row; y++) {
            ge_dsp_float_clamp((float *)ge_row(out, y), p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}
