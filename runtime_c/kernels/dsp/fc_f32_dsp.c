/* Fully connected layer: float32 rows for cores with a single-precision FPU, eight outputs at a time.
 *
 * Each output is one chain of additions: it begins with the bias, and for each input the rounded product is added and
 * the sum rounded. For eight outputs the stream holds their biases, then the eight weights of each input. s0-s7 sums,
 * s8-s15 weights and products, s16 s17 inputs: 56 cycles for 16 products. */
#include "ge.h"
#include "ge_float.h"
#include "ge_params.h"

#define FC_F32_DSP_TIMES(x)                                                                                            \
    "    vldm %[w]!, {s8-s15}\n"                                                                                       \
    "    vmul.f32 s8, s8, " x "\n"                                                                                     \
    "    vmul.f32 s9, s9, " x "\n"                                                                                     \
    "    vmul.f32 s10, s10, " x "\n"                                                                                   \
    "    vmul.f32 s11, s11, " x "\n"                                                                                   \
    "    vmul.f32 s12, s12, " x "\n"                                                                                   \
    "    vmul.f32 s13, s13, " x "\n"                                                                                   \
    "    vmul.f32 s14, s14, " x "\n"                                                                                   \
    "    vmul.f32 s15, s15, " x "\n"                                                                                   \
    "    vadd.f32 s0, s0, s8\n"                                                                                        \
    "    vadd.f32 s1, s1, s9\n"                                                                                        \
    "    vadd.f32 s2, s2, s10\n"                                                                                       \
    "    vadd.f32 s3, s3, s11\n"                                                                                       \
    "    vadd.f32 s4, s4, s12\n"                                                                                       \
    "    vadd.f32 s5, s5, s13\n"                                                                                       \
    "    vadd.f32 s6, s6, s14\n"                                                                                       \
    "    vadd.f32 s7, s7, s15\n"

/* Computes eight sums of `count` > 0 inputs; returns the rest of the stream. */
static GE_NOINLINE const float *fc_f32_dsp_eight(const float *x, int32_t count, const float *w, float *sums) {
    int32_t pairs = count >> 1;
    __asm__ volatile("    vldm %[w]!, {s0-s7}\n"
                     "    lsls.w %[n], %[n], #31\n"
                     "    beq.n 1f\n"
                     "    vldm %[x]!, {s16}\n" /* the first of an odd number */
                     FC_F32_DSP_TIMES("s16") "1:\n"
                                             "    cmp.w %[pairs], #0\n"
                                             "    beq.n 3f\n"
                                             "    .balign 4\n"
                                             "2:\n"
                                             "    vldm %[x]!, {s16-s17}\n" FC_F32_DSP_TIMES("s16")
                                                 FC_F32_DSP_TIMES("s17") "    subs.w %[pairs], %[pairs], #1\n"
                                                                         "    bne.n 2b\n"
                                                                         "3:\n"
                                                                         "    vstm %[sums], {s0-s7}\n"
                     : [x] "+&r"(x), [w] "+&r"(w), [n] "+&r"(count), [pairs] "+&r"(pairs)
                     : [sums] "r"(sums)
                     : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14",
                       "s15", "s16", "s17", "cc", "memory");
    return w;
}

static void ge_fc_f32_dsp(const ge_fc_f32_params *p, const ge_rows *x, const float *stream, const ge_rows *out,
                          int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const float *const row = (const float *)ge_row(x, y);
        float *const o = (float *)ge_row(out, y);
        const float *w = stream;
        for (int32_t oc = 0; oc < p->out_c; oc += 8) {
            float sums[8];
            w = fc_f32_dsp_eight(row, p->in_c, w, sums);
            for (int32_t i = 0; i < 8 && oc + i < p->out_c; i++) {
                o[oc + i] = ge_clamp_f32(sums[i], p->lo, p->hi);
            }
        }
    }
}
