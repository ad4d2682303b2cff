/* 3x3 depthwise convolution, stride 1, of int16 with int16 weights for Cortex-M4, M7 and M33, sums of 64 bits.
 *
 * ge_dsp_wide_depthwise.h packs the lines. A loop computes two neighbouring outputs of one channel: r0 pixels, r1 out,
 * r2-r7 weights, r8 r9 one sum, r10 r11 the other, r12 lr words. Of the product of a sum and its multiplier the upper
 * words count; ASRS leaves in the carry the half that ADC adds. Cost: 45 cycles for 2 outputs, 5 per iteration of two such
 * steps, 95 per channel of a line.
 *
 * scratch: [blocks of four channels][three lines of four channels]. It requires a shift of 33 and more. */
#include "ge.h"
#include "ge_dsp_wide_depthwise.h"
#include "ge_params.h"

#define DEPTHWISE3X3_EXACT_S16_DSP_RELU 256 /* in the law of a job, beside the shift of the upper word */

/* clang-format off */

/* Adds the products of one line: of pixels x0 x1 in r12 and x2 x3 in lr. */
#define DEPTHWISE3X3_EXACT_S16_DSP_ADD2(w01, w12) \
    "    smlald r8, r9, r12, " w01 "\n" \
    "    smlalbt r8, r9, lr, " w12 "\n" \
    "    smlaltb r10, r11, r12, " w01 "\n" \
    "    smlald r10, r11, lr, " w12 "\n"
#define DEPTHWISE3X3_EXACT_S16_DSP_ADD(w01, w12) \
    "    smlald r8, r9, r12, " w01 "\n" \
    "    smlalbt r8, r9, lr, " w12 "\n"

/* The upper words of a sum times the multiplier in lr, in the lower register of the sum. */
#define DEPTHWISE3X3_EXACT_S16_DSP_UPPER(low, high) \
    "    umull r12, " low ", " low ", lr\n" \
    "    mla " low ", " high ", lr, " low "\n"

/* Computes two outputs; `end` loads the end of the line's outputs in the ring into r12. */
#define DEPTHWISE3X3_EXACT_S16_DSP_STEP2(saturate, end) \
    "    ldr.w r8, [sp, #4*11]\n" \
    "    ldr.w r9, [sp, #4*13]\n" \
    "    ldr.w lr, [r0, #48]\n" \
    "    ldr.w r12, [r0]\n" \
    "    mov.w r10, r8\n" \
    "    mov.w r11, r9\n" \
    DEPTHWISE3X3_EXACT_S16_DSP_ADD2("r2", "r3") \
    "    ldr.w r12, [r0, #16]\n" \
    "    ldr.w lr, [r0, #64]\n" \
    DEPTHWISE3X3_EXACT_S16_DSP_ADD2("r4", "r5") \
    "    ldr.w r12, [r0, #32]\n" \
    "    ldr.w lr, [r0, #80]\n" \
    "    add.w r0, r0, #48\n" \
    DEPTHWISE3X3_EXACT_S16_DSP_ADD2("r6", "r7") \
    "    ldr.w lr, [sp, #4*12]\n" \
    DEPTHWISE3X3_EXACT_S16_DSP_UPPER("r8", "r9") \
    DEPTHWISE3X3_EXACT_S16_DSP_UPPER("r10", "r11") \
    "    ldr.w r9, [sp, #4*8]\n" \
    "    ldr.w r11, [sp, #4*3]\n" \
    "    ldr.w lr, [sp, #4*5]\n" \
    end \
    "    asrs.w r8, r8, r9\n" \
    "    adc.w r8, r8, r11\n" \
    "    asrs.w r10, r10, r9\n" \
    "    adc.w r10, r10, r11\n" \
    saturate("r8") \
    saturate("r10") \
    "    strh.w r8, [r1]\n" \
    "    strh.w r10, [r1, lr]\n" \
    "    add.w r1, r1, lr, lsl #1\n"

/* Computes a line of pairs; the last three arguments are labels. */
#define DEPTHWISE3X3_EXACT_S16_DSP_LINE(saturate, two, middle, last) \
    "    ldr.w lr, [sp, #4*10]\n" \
    "    cmp.w r0, lr\n" \
    "    beq.w " last "f\n" \
    "    ldr.w lr, [sp, #4*6]\n" \
    "    tst.w lr, #1\n" \
    "    bne.w " middle "f\n" \
    "    .balign 4\n" \
    two ":\n" \
    DEPTHWISE3X3_EXACT_S16_DSP_STEP2(saturate, "") \
    middle ":\n" \
    DEPTHWISE3X3_EXACT_S16_DSP_STEP2(saturate, "    ldr.w r12, [sp, #4*10]\n") \
    "    cmp.w r0, r12\n" \
    "    bne.w " two "b\n" \
    last ":\n" \
    "    ldr.w lr, [sp, #4*7]\n" \
    "    cmp.w lr, #0\n" \
    "    beq.w 9f\n" \
    "    ldr.w r8, [sp, #4*11]\n" \
    "    ldr.w r9, [sp, #4*13]\n" \
    "    ldr.w lr, [r0, #48]\n" \
    "    ldr.w r12, [r0]\n" \
    DEPTHWISE3X3_EXACT_S16_DSP_ADD("r2", "r3") \
    "    ldr.w r12, [r0, #16]\n" \
    "    ldr.w lr, [r0, #64]\n" \
    DEPTHWISE3X3_EXACT_S16_DSP_ADD("r4", "r5") \
    "    ldr.w r12, [r0, #32]\n" \
    "    ldr.w lr, [r0, #80]\n" \
    DEPTHWISE3X3_EXACT_S16_DSP_ADD("r6", "r7") \
    "    ldr.w lr, [sp, #4*12]\n" \
    "    ldr.w r10, [sp, #4*8]\n" \
    "    ldr.w r11, [sp, #4*3]\n" \
    DEPTHWISE3X3_EXACT_S16_DSP_UPPER("r8", "r9") \
    "    asrs.w r8, r8, r10\n" \
    "    adc.w r8, r8, r11\n" \
    saturate("r8") \
    "    strh.w r8, [r1]\n" \
    "    b.w 9f\n"

#define DEPTHWISE3X3_EXACT_S16_DSP_SIGNED(y) "    ssat " y ", #16, " y "\n"
#define DEPTHWISE3X3_EXACT_S16_DSP_UNSIGNED(y) "    usat " y ", #15, " y "\n"

/* Computes the channels of one line, one after another. */
__attribute__((noinline)) static void depthwise3x3_exact_s16_dsp_line(const ge_dsp_wide_line_job *job) {
    register const ge_dsp_wide_line_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_ENTER(depthwise3x3_exact_s16_dsp_line, 0, "r1-r6, r8-r11")
        GE_DSP_WIDE_CHANNEL
        "    ldr.w lr, [sp, #4*8]\n"
        "    ldr.w r8, [r10, #40]\n"
        "    ldr.w r9, [r10, #44]\n"
        "    ldr.w r11, [r10, #48]\n"
        "    ldm.w r12, {r2-r7}\n"
        "    str.w r8, [sp, #4*11]\n"
        "    str.w r9, [sp, #4*12]\n"
        "    str.w r11, [sp, #4*13]\n"
        "    tst.w lr, #256\n"
        "    bne.w 5f\n"
        DEPTHWISE3X3_EXACT_S16_DSP_LINE(DEPTHWISE3X3_EXACT_S16_DSP_SIGNED, "2", "3", "4")
        "5:\n"
        DEPTHWISE3X3_EXACT_S16_DSP_LINE(DEPTHWISE3X3_EXACT_S16_DSP_UNSIGNED, "6", "7", "8")
        "9:\n" /* the next channel */
        GE_DSP_WIDE_NEXT
        "    bne.w 1b\n"
        GE_DSP_LEAVE
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

static void ge_depthwise3x3_exact_s16_dsp(const ge_conv2d_s16_params *p, const ge_rows *x, const int16_t *weights,
                                          const int64_t *bias, const int32_t *multiplier, const ge_rows *out,
                                          int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t relu = ge_dsp_wide_is_relu(p->lo, p->hi);
    const int32_t law = (p->shift < 33 ? 33 : p->shift) - 32 + (relu ? DEPTHWISE3X3_EXACT_S16_DSP_RELU : 0);
    ge_dsp_wide_lines_by(depthwise3x3_exact_s16_dsp_line, law, p, x, weights, 2, bias, multiplier, out, first_row,
                         last_row, scratch);
    ge_dsp_wide_bounds(p, out, first_row, last_row, relu);
}
