/* Depthwise convolution 3x3, stride 1, of float32 for Cortex-M4, M7, M33 and M55 with an FPU.
 *
 * Four channels of two neighbouring outputs at a time. Three rows of the input lie in scratch with their padding, in slots that
 * they take in turn, the columns of four channels one after the other. Padding is a zero, which changes no sum
 * (conv2d_f32_dsp.c says why).
 *
 * s0-s3 s4-s7 sums of the left and the right output; s8-s19 the weights of a row of taps; s20-s23 inputs; s24-s31 products;
 * r0 weights, r1-r3 rows. 243 cycles for 72 products, 45 for each 8 outputs besides. */
#include "ge.h"
#include "ge_float.h"
#include "ge_isa_dsp_float.h"
#include "ge_params.h"

typedef struct {
    const float *rows[3]; /* 0 */
    const float *w;       /* 12: of four channels: biases, weights of each row of taps, from the left */
    float *out;           /* 16 */
    int32_t count;        /* 20: outputs */
    int32_t step;         /* 24: bytes from output to output */
    int32_t relu;         /* 28 */
    uint32_t unbounded;   /* 32 */
} depthwise3x3_f32_dsp_job;

/* clang-format off */

/* A row of taps. */
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

#define DEPTHWISE3X3_F32_DSP_PLAIN(to, a, b, c, d) "    vstm " to ", {" a "-" d "}\n"

#define DEPTHWISE3X3_F32_DSP_RELU(to, a, b, c, d) \
    "    vmov r1, r2, " a ", " b "\n" \
    "    vmov r3, r4, " c ", " d "\n" \
    "    bic.w r1, r1, r1, asr #31\n" \
    "    bic.w r2, r2, r2, asr #31\n" \
    "    bic.w r3, r3, r3, asr #31\n" \
    "    bic.w r4, r4, r4, asr #31\n" \
    "    stm.w " to ", {r1-r4}\n"

/* Four channels of a row of outputs. A lone last output is written behind what is computed with it. A sum of all outputs is
 * finite if each of them is. */
__attribute__((noinline)) static void depthwise3x3_f32_dsp_line(depthwise3x3_f32_dsp_job *job) {
    register depthwise3x3_f32_dsp_job *r12 __asm__("r12") = job;
    __asm__ volatile(
        "    ldr.w r5, [r12, #16]\n"
        "    ldr.w r8, [r12, #20]\n"
        "    .balign 4\n"
        "1:\n"
        "    ldm.w r12, {r0-r3}\n"
        "    mov.w r4, r0\n"
        "    mov.w r0, r3\n"
        "    mov.w r3, r2\n"
        "    mov.w r2, r1\n"
        "    mov.w r1, r4\n"
        "    add.w r9, r1, #32\n"
        "    add.w r10, r2, #32\n"
        "    str.w r9, [r12, #0]\n"
        "    str.w r10, [r12, #4]\n"
        "    add.w r9, r3, #32\n"
        "    ldr.w r10, [r12, #24]\n"
        "    str.w r9, [r12, #8]\n"
        "    vldm r0!, {s0-s3}\n"
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
        : "+r"(r12)
        :
        : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "cc", "memory", GE_DSP_FLOAT_REGISTERS);
}

/* clang-format on */

/* Row iy of the input into a slot: for each four channels `columns` columns, of which some are padding. */
static void depthwise3x3_f32_dsp_slot(const ge_conv2d_f32_params *p, const ge_rows *x, int32_t iy, int32_t columns,
                                      float *to) {
    const float *const row = iy >= 0 && iy < p->in_h ? (const float *)ge_row(x, iy) : NULL;
    if (row == NULL) {
        memset(to, 0, (size_t)(columns * p->in_c) * sizeof *to);
        return;
    }
    for (int32_t c = 0; c < p->in_c; c += 4) {
        for (int32_t j = 0; j < columns; j++) {
            const int32_t ix = j - p->pad_left;
            if (ix >= 0 && ix < p->in_w) {
                const float *const from = row + ix * p->in_c + c;
                to[0] = from[0];
                to[1] = from[1];
                to[2] = from[2];
                to[3] = from[3];
            } else {
                to[0] = to[1] = to[2] = to[3] = 0.0f;
            }
            to += 4;
        }
    }
}

static void ge_depthwise3x3_f32_dsp(const ge_conv2d_f32_params *p, const ge_rows *x, const float *stream,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t columns = p->out_w + 3;
    const int32_t slot = columns * p->out_c;
    const int32_t law = ge_dsp_float_law(p->lo, p->hi);
    int32_t next = first_row - p->pad_top; /* the next row to load */
    uint32_t unbounded = 0;
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t top = y - p->pad_top;
        for (; next < top + 3; next++) {
            depthwise3x3_f32_dsp_slot(p, x, next, columns, (float *)scratch + (next + p->pad_top) % 3 * slot);
        }
        for (int32_t c = 0; c < p->out_c; c += 4) {
            depthwise3x3_f32_dsp_job job = {{NULL}, stream + 10 * c, NULL, p->out_w, 4 * p->out_c, law == 1, 0};
            for (int32_t k = 0; k < 3; k++) {
                job.rows[k] = (const float *)scratch + (y + k) % 3 * slot + c * columns;
            }
            job.out = (float *)ge_row(out, y) + c;
            depthwise3x3_f32_dsp_line(&job);
            unbounded |= job.unbounded;
        }
    }
    if (law == 2 || unbounded != 0) {
        for (int32_t y = first_row; y < last_row; y++) {
            ge_dsp_float_clamp((float *)ge_row(out, y), p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}
