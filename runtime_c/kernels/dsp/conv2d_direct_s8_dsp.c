/* Convolution of int8 [H, W, C] in one group for Cortex-M4, M7 and M33, read directly from the image: one pixel by 8
 * channels at a time.
 *
 * The taps of a window are a list of addresses, where taps in padding point to a pixel of zero points; so one loop
 * serves any stride, dilation and padding. It expands each input again for every 8 channels, which costs a third more
 * than a strip (ge_isa_dsp_strip.h) but needs almost no scratch. ge_isa_dsp.h explains how weights are packed and why
 * that is exact.
 *
 * r0 weights, r1 x, r2 S01, r3 B01, r4 S23, r5 B23, r6 S45, r7 B45, r8 S67, r9 B67, r10 r11 the pairs (x0, x2) and (x1,
 * x3), r12 lr weights. Cost: 39 cycles for 32 products, 10 per tap, and 60 per 8 outputs.
 *
 * scratch: [addresses of the taps][a pixel of zero points]. It requires shift 25..32, |sum| < 2^23, a multiple of four
 * input channels, and at least 8 output channels. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

#define CONV2D_DIRECT_S8_DSP_DEPTH 16 /* channels in */
#define CONV2D_DIRECT_S8_DSP_UNROLL 4 /* groups of four channels in the loop */
#define CONV2D_DIRECT_S8_DSP_DOWN 8   /* 8 - (32 - shift) */

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const int8_t *const *taps;
    const int8_t *const *taps_end;
    const uint32_t *w; /* for each group: S01, B01 .. S67, B67, four words for each pair of k, 8 multipliers */
    int8_t *out;
    int32_t groups; /* groups of eight channels */
    int32_t zero_point;
} conv2d_direct_s8_dsp_job;

/* Multiplies four channels by the pair of inputs in `x`. */
#define CONV2D_DIRECT_S8_DSP_FOUR(x, s01, b01, s23, b23)                                                               \
    "    smlad " s01 ", r12, " x ", " s01 "\n"                                                                         \
    "    smlad " s23 ", lr, " x ", " s23 "\n"                                                                          \
    "    sxtb16 r12, r12\n"                                                                                            \
    "    sxtb16 lr, lr\n"                                                                                              \
    "    smlad " b01 ", r12, " x ", " b01 "\n"                                                                         \
    "    smlad " b23 ", lr, " x ", " b23 "\n"

#define CONV2D_DIRECT_S8_DSP_LOAD                                                                                      \
    "    ldr.w lr, [r0, #4]\n"                                                                                         \
    "    ldr.w r12, [r0], #8\n"

__attribute__((noinline)) static void conv2d_direct_s8_dsp_pixel(const conv2d_direct_s8_dsp_job *job) {
    register const conv2d_direct_s8_dsp_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        "    .set ge_depth, %c[depth]\n"
        "    .set ge_unroll, %c[unroll]\n"
        "    .set ge_down, %c[down]\n" GE_DSP_ENTER(
            conv2d_direct_s8_dsp_pixel, 0,
            "r1-r6") "    ldr.w r0, [sp, #4*2]\n"
                     "    .balign 4\n"
                     "1:\n" /* eight channels */
                     "    ldmia.w r0!, {r2-r9}\n"
                     "    ldr.w r12, [sp, #4*0]\n"
                     "2:\n" /* a tap */
                     "    ldr.w r1, [r12], #4\n"
                     "    str.w r12, [sp, #4*10]\n"
                     "    .if ge_depth > 4*ge_unroll\n"
                     "    addw r12, r1, #ge_depth\n"
                     "    str.w r12, [sp, #4*11]\n"
                     "    .endif\n"
                     "3:\n"
                     "    .rept ge_unroll\n"
                     "    ldr.w r10, [r1], #4\n" CONV2D_DIRECT_S8_DSP_LOAD "    sxtb16 r11, r10, ror #8\n"
                     "    sxtb16 r10, r10\n" CONV2D_DIRECT_S8_DSP_FOUR("r10", "r2", "r3", "r4", "r5")
                         CONV2D_DIRECT_S8_DSP_LOAD CONV2D_DIRECT_S8_DSP_FOUR("r10", "r6", "r7", "r8", "r9")
                             CONV2D_DIRECT_S8_DSP_LOAD CONV2D_DIRECT_S8_DSP_FOUR("r11", "r2", "r3", "r4", "r5")
                                 CONV2D_DIRECT_S8_DSP_LOAD CONV2D_DIRECT_S8_DSP_FOUR(
                                     "r11", "r6", "r7", "r8", "r9") "    .endr\n"
                                                                    "    .if ge_depth > 4*ge_unroll\n"
                                                                    "    ldr.w r12, [sp, #4*11]\n"
                                                                    "    cmp.w r1, r12\n"
                                                                    "    bne.w 3b\n"
                                                                    "    .endif\n"
                                                                    "    ldr.w r12, [sp, #4*10]\n"
                                                                    "    ldr.w lr, [sp, #4*1]\n"
                                                                    "    cmp.w r12, lr\n"
                                                                    "    bne.w 2b\n"

                                                                    "    sub.w r2, r2, r3\n"
                                                                    "    sub.w r4, r4, r5\n"
                                                                    "    sub.w r6, r6, r7\n"
                                                                    "    sub.w r8, r8, r9\n"
                                                                    "    asr.w r2, r2, #ge_down\n"
                                                                    "    asr.w r4, r4, #ge_down\n"
                                                                    "    asr.w r6, r6, #ge_down\n"
                                                                    "    asr.w r8, r8, #ge_down\n"
                                                                    "    .if ge_down < 8\n"
                                                                    "    lsl.w r3, r3, #8-ge_down\n"
                                                                    "    lsl.w r5, r5, #8-ge_down\n"
                                                                    "    lsl.w r7, r7, #8-ge_down\n"
                                                                    "    lsl.w r9, r9, #8-ge_down\n"
                                                                    "    .endif\n"
                                                                    "    ldr.w r1, [sp, #4*5]\n"
                                                                    "    ldr.w r11, [r0, #4]\n"
                                                                    "    ldr.w r12, [r0, #8]\n"
                                                                    "    ldr.w lr, [r0, #12]\n"
                                                                    "    ldr.w r10, [r0], #16\n"
                                                                    "    smmlar r2, r2, r10, r1\n"
                                                                    "    smmlar r3, r3, r11, r1\n"
                                                                    "    smmlar r4, r4, r12, r1\n"
                                                                    "    smmlar r5, r5, lr, r1\n"
                                                                    "    ldr.w r11, [r0, #4]\n"
                                                                    "    ldr.w r12, [r0, #8]\n"
                                                                    "    ldr.w lr, [r0, #12]\n"
                                                                    "    ldr.w r10, [r0], #16\n"
                                                                    "    smmlar r6, r6, r10, r1\n"
                                                                    "    smmlar r7, r7, r11, r1\n"
                                                                    "    smmlar r8, r8, r12, r1\n"
                                                                    "    smmlar r9, r9, lr, r1\n"
                                                                    "    ldr.w r1, [sp, #4*3]\n"
                                                                    "    ldr.w r12, [sp, #4*4]\n"
                                                                    "    ssat r2, #8, r2\n"
                                                                    "    ssat r3, #8, r3\n"
                                                                    "    ssat r4, #8, r4\n"
                                                                    "    ssat r5, #8, r5\n"
                                                                    "    ssat r6, #8, r6\n"
                                                                    "    ssat r7, #8, r7\n"
                                                                    "    ssat r8, #8, r8\n"
                                                                    "    ssat r9, #8, r9\n"
                                                                    "    strb.w r3, [r1, #1]\n"
                                                                    "    strb.w r4, [r1, #2]\n"
                                                                    "    strb.w r5, [r1, #3]\n"
                                                                    "    strb.w r6, [r1, #4]\n"
                                                                    "    strb.w r7, [r1, #5]\n"
                                                                    "    strb.w r8, [r1, #6]\n"
                                                                    "    strb.w r9, [r1, #7]\n"
                                                                    "    strb r2, [r1], #8\n"
                                                                    "    subs.w r12, r12, #1\n"
                                                                    "    str.w r1, [sp, #4*3]\n"
                                                                    "    str.w r12, [sp, #4*4]\n"
                                                                    "    bne.w 1b\n" GE_DSP_LEAVE
        : "+r"(r0)
        : [depth] "i"(CONV2D_DIRECT_S8_DSP_DEPTH), [unroll] "i"(CONV2D_DIRECT_S8_DSP_UNROLL),
          [down] "i"(CONV2D_DIRECT_S8_DSP_DOWN)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* Sets the addresses of the taps of output (y, ox). */
static void conv2d_direct_s8_dsp_taps(const ge_conv2d_params *p, const ge_rows *x, int32_t y, int32_t ox,
                                      const int8_t *zero, const int8_t **taps) {
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        const int32_t below = iy >= 0 && iy < p->in_h;
        const int8_t *const row = below ? (const int8_t *)ge_row(x, iy) : zero;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
            *taps++ = below && ix >= 0 && ix < p->in_w ? row + ix * p->in_c : zero;
        }
    }
}

static void ge_conv2d_direct_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t count = p->kernel_h * p->kernel_w;
    const int32_t rest = p->out_c & 7;
    const int8_t **taps = (const int8_t **)scratch;
    int8_t *const zero = (int8_t *)(taps + count);
    memset(zero, p->in_zero_point, (size_t)p->in_c);
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            conv2d_direct_s8_dsp_taps(p, x, y, ox, zero, taps);
            conv2d_direct_s8_dsp_job job = {taps, taps + count, stream, o, p->out_c / 8, p->out_zero_point};
            if (rest != 0) {
                job.groups = 1;
                conv2d_direct_s8_dsp_pixel(&job);
                job.w += count * CONV2D_DIRECT_S8_DSP_DEPTH * 2 + 16;
                job.groups = p->out_c / 8;
                job.out = o + rest;
            }
            conv2d_direct_s8_dsp_pixel(&job);
            o += p->out_c;
        }
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(o - p->out_w * p->out_c, p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}
