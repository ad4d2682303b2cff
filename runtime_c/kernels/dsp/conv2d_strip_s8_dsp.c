/* Convolution of int8 [H, W, C] with more than one tap, all adjacent, and one group for Cortex-M4, M7 and M33.
 *
 * Each distinct shape is an instance: this loop with the numbers of the shape, and a struct of these numbers. The rest
 * is shared (ge_isa_dsp_strip.h, which explains what a strip is). Products: 4 channels x 2 pixels, as in ge_isa_dsp.h.
 *
 * r0 weights, r1 x, r2 r3 S01 of the pixels, r4 r5 B01, r6 r7 S23, r8 r9 B23, r10 r11 weights, r12 lr x. Cost: 15
 * cycles for 16 products, 54 per 8 outputs, 4 per iteration of a loop of more than one; 16 per two pixels.
 *
 * scratch: the strip. It requires |sum| < 2^23, and shift 25..32 or the conditions of ge_isa_dsp_law.h. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_law.h"
#include "ge_isa_dsp_strip.h"
#include "ge_params.h"

#define CONV2D_STRIP_S8_DSP_CHANNELS 64 /* see ge_dsp_strip */
#define CONV2D_STRIP_S8_DSP_PIXEL 128
#define CONV2D_STRIP_S8_DSP_STEPS 32
#define CONV2D_STRIP_S8_DSP_TILE 16
#define CONV2D_STRIP_S8_DSP_UNROLL 16 /* steps in the loop; the first one is before it */
#define CONV2D_STRIP_S8_DSP_DOWN 8    /* 8 - (32 - shift) */
#define CONV2D_STRIP_S8_DSP_LAW 0     /* see ge_isa_dsp_law.h */

/* clang-format off */

__attribute__((noinline)) static void conv2d_strip_s8_dsp_products(const ge_dsp_strip_job *job) {
    register const ge_dsp_strip_job *r0 __asm__("r0") = job;
    __asm__ volatile("    .set ge_pixel, %c[pixel]\n"
                     "    .set ge_next, 4\n"
                     "    .set ge_steps, %c[steps]\n"
                     "    .set ge_unroll, %c[unroll]\n"
                     "    .set ge_down, %c[down]\n"
                     "    .set ge_law, %c[law]\n"
                     "    .set ge_turns, (ge_steps-1)/ge_unroll\n"
                     "    .set ge_rest, (ge_steps-1)-ge_turns*ge_unroll\n"
                     GE_DSP_ENTER(conv2d_strip_s8_dsp_products, CONV2D_STRIP_S8_DSP_LAW, "r1-r6, r8")
                     "    .balign 4\n"
                     "1:\n" /* two pixels: the inputs of the first one at r1, the address of its outputs in r2 */
                     "    ldr.w r0, [sp, #4*4]\n"
                     "    .if ge_steps > ge_unroll+1\n"
                     "    .if 4*ge_steps < 4096\n"
                     "    addw r3, r1, #4*ge_steps\n"
                     "    .else\n"
                     "    movw r3, #4*ge_steps\n"
                     "    add.w r3, r3, r1\n"
                     "    .endif\n"
                     "    str.w r3, [sp, #4*10]\n" /* end of the first pixel's window */
                     "    .endif\n"
                     "    str.w r1, [sp, #4*0]\n"
                     "    str.w r2, [sp, #4*12]\n"
                     "2:\n" /* four channels, their weights at r0; the first step begins the sums */
                     GE_DSP_STRIP_FIRST
                     "    .if ge_rest && ge_turns\n"
                     "    b.w 3f + (ge_unroll-ge_rest)*56\n"
                     "    .endif\n"
                     "3:\n"
                     "    .if ge_steps > 1\n"
                     "    .rept ge_unroll\n"
                     GE_DSP_STRIP_STEP
                     "    .endr\n"
                     "    .endif\n"
                     "    .if ge_steps > ge_unroll+1\n"
                     "    ldr.w r12, [sp, #4*10]\n"
                     "    cmp.w r1, r12\n"
                     "    bne.w 3b\n"
                     "    .endif\n"
                     GE_DSP_STRIP_OUTPUTS(CONV2D_STRIP_S8_DSP_LAW)
                     "    bne.w 2b\n"

                     "    ldr.w r2, [sp, #4*1]\n"
                     "    ldr.w r3, [sp, #4*2]\n"
                     "    addw r1, r1, #ge_pixel\n"
                     "    addw r1, r1, #ge_pixel\n"
                     "    add.w r2, r2, lr, lsl #1\n"
                     "    str.w r2, [sp, #4*1]\n"
                     "    cmp.w r1, r3\n"
                     "    bne.w 1b\n"
                     GE_DSP_LEAVE
                     : "+r"(r0)
                     : [pixel] "i"(CONV2D_STRIP_S8_DSP_PIXEL), [steps] "i"(CONV2D_STRIP_S8_DSP_STEPS),
                       [unroll] "i"(CONV2D_STRIP_S8_DSP_UNROLL), [down] "i"(CONV2D_STRIP_S8_DSP_DOWN),
                       [law] "i"(CONV2D_STRIP_S8_DSP_LAW)
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory" GE_DSP_LAW_CHANGES(CONV2D_STRIP_S8_DSP_LAW));
}

/* clang-format on */

static void ge_conv2d_strip_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                   const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    static const ge_dsp_strip s = {CONV2D_STRIP_S8_DSP_PIXEL,
                                   CONV2D_STRIP_S8_DSP_STEPS,
                                   CONV2D_STRIP_S8_DSP_CHANNELS,
                                   CONV2D_STRIP_S8_DSP_TILE,
                                   GE_DSP_LAW_WORDS(CONV2D_STRIP_S8_DSP_LAW),
                                   conv2d_strip_s8_dsp_products};
    if (CONV2D_STRIP_S8_DSP_TILE > 0 && CONV2D_STRIP_S8_DSP_TILE < p->out_w) {
        ge_dsp_strip_parts(p, &s, x, stream, out, first_row, last_row, (int16_t *)scratch);
    } else {
        ge_dsp_strip_windows(p, &s, x, stream, out, first_row, last_row, (int16_t *)scratch);
    }
}
