/* 1x1 convolution of int8 [H, W, C] for Cortex-M4, M7 and M33 with three products in one multiplication.
 *
 * ge_isa_dsp_polynomial.h explains how. In addition, each loop of more than one iteration takes 4 cycles per iteration.
 *
 * scratch: two words for each channel of three pixels: (x0, x1), (x1, x2). */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_polynomial.h"
#include "ge_params.h"

#define CONV2D_POLYNOMIAL_S8_DSP_IN 16     /* channels, a multiple of 4 */
#define CONV2D_POLYNOMIAL_S8_DSP_OUT 16    /* channels: bytes from output to output */
#define CONV2D_POLYNOMIAL_S8_DSP_TILE 12   /* pixels in scratch, a multiple of 3 */
#define CONV2D_POLYNOMIAL_S8_DSP_UNROLL 16 /* steps in the loop */
#define CONV2D_POLYNOMIAL_S8_DSP_UP 0      /* 32 - shift */

/* Computes all channels of groups of three adjacent pixels. */
__attribute__((noinline)) static void conv2d_polynomial_s8_dsp_products(const ge_dsp_polynomial_job *job) {
    register const ge_dsp_polynomial_job *r0 __asm__("r0") = job;
    /* clang-format off */
    __asm__ volatile(
        "    .set ge_steps, %c[steps]\n"
        "    .set ge_unroll, %c[unroll]\n"
        "    .set ge_out, %c[out]\n"
        "    .set ge_up, %c[up]\n"
        "    .set ge_law, 0\n"
        "    .set ge_turns, ge_steps/ge_unroll\n"
        "    .set ge_rest, ge_steps-ge_turns*ge_unroll\n"
        GE_DSP_POLYNOMIAL_BEGIN(conv2d_polynomial_s8_dsp_products, 0)
        "    .balign 4\n"
        "1:\n" /* four channels */
        "    ldr.w r0, [sp, #4*4]\n"
        "    movw r12, #8*ge_steps\n"
        "    add.w r12, r12, r0\n"
        "    str.w r12, [sp, #4*6]\n" /* end of the weights */
        "    str.w r2, [sp, #4*7]\n"
        "    .balign 4\n"
        "2:\n" /* three pixels */
        GE_DSP_POLYNOMIAL_ZERO
        "    .if ge_rest && ge_turns\n"
        "    b.w 3f + (ge_unroll-ge_rest)*32\n"
        "    .endif\n"
        "    .balign 4\n"
        "3:\n"
        "    .rept ge_unroll\n"
        "    ldr.w r11, [r0, #4]\n"
        "    ldr.w r10, [r0], #8\n"
        "    ldr.w lr, [r1, #4]\n"
        "    ldr.w r12, [r1], #8\n"
        GE_DSP_POLYNOMIAL_PRODUCTS
        "    .endr\n"
        "    .if ge_steps > ge_unroll\n"
        "    ldr.w r12, [sp, #4*6]\n"
        "    cmp.w r0, r12\n"
        "    bne.w 3b\n"
        "    .endif\n"
        GE_DSP_POLYNOMIAL_END(0)
        : "+r"(r0)
        : [steps] "i"(CONV2D_POLYNOMIAL_S8_DSP_IN), [unroll] "i"(CONV2D_POLYNOMIAL_S8_DSP_UNROLL),
          [out] "i"(CONV2D_POLYNOMIAL_S8_DSP_OUT), [up] "i"(CONV2D_POLYNOMIAL_S8_DSP_UP)
        : GE_DSP_POLYNOMIAL_CLOBBERED(0));
    /* clang-format on */
}

/* Writes four bytes of each of three pixels: byte ROR / 8 of them. */
#define CONV2D_POLYNOMIAL_S8_DSP_BYTE(ror)                                                                             \
    "    sxtb.w %[d], %[a]" ror "\n"                                                                                   \
    "    sxtb.w %[e], %[b]" ror "\n"                                                                                   \
    "    sxtb.w %[f], %[c]" ror "\n"                                                                                   \
    "    add.w %[d], %[d], %[e], lsl #21\n"                                                                            \
    "    add.w %[e], %[e], %[f], lsl #21\n"                                                                            \
    "    str.w %[e], [%[y], #4]\n"                                                                                     \
    "    str.w %[d], [%[y]], #8\n"

/* Writes three pixels, `step` bytes apart, as words. Cost: 2.9 cycles per channel of a pixel. */
static inline void conv2d_polynomial_s8_dsp_three(const int8_t *x, int32_t step, uint32_t *to) {
    const int8_t *const end = x + CONV2D_POLYNOMIAL_S8_DSP_IN;
    const int32_t twice = 2 * step;
    uint32_t a, b, c, d, e, f;
    /* clang-format off */
    __asm__ volatile(
        "    .balign 4\n"
        "1:\n"
        "    ldr.w %[b], [%[x], %[step]]\n"
        "    ldr.w %[c], [%[x], %[twice]]\n"
        "    ldr.w %[a], [%[x]], #4\n"
        CONV2D_POLYNOMIAL_S8_DSP_BYTE("")
        CONV2D_POLYNOMIAL_S8_DSP_BYTE(", ror #8")
        CONV2D_POLYNOMIAL_S8_DSP_BYTE(", ror #16")
        CONV2D_POLYNOMIAL_S8_DSP_BYTE(", ror #24")
        "    cmp.w %[x], %[end]\n"
        "    bne.w 1b\n"
        : [x] "+&r"(x), [y] "+&r"(to), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d), [e] "=&r"(e),
          [f] "=&r"(f)
        : [end] "r"(end), [step] "r"(step), [twice] "r"(twice)
        : "cc", "memory");
    /* clang-format on */
}

/* Computes all channels of `threes` times three pixels whose words are at x. */
static void conv2d_polynomial_s8_dsp_multiply(const ge_conv2d_params *p, const uint32_t *w, const uint32_t *x,
                                              int8_t *out, int32_t threes) {
    const int32_t rest = CONV2D_POLYNOMIAL_S8_DSP_OUT & 3;
    const uint32_t *const end = x + threes * 2 * CONV2D_POLYNOMIAL_S8_DSP_IN;
    ge_dsp_polynomial_job job = {x, out, end, CONV2D_POLYNOMIAL_S8_DSP_OUT / 4, w, p->out_zero_point};
    if (rest != 0) {
        job.groups = 1;
        conv2d_polynomial_s8_dsp_products(&job);
        job.w += 2 * CONV2D_POLYNOMIAL_S8_DSP_IN + 8;
        job.groups = CONV2D_POLYNOMIAL_S8_DSP_OUT / 4;
        job.out += rest;
    }
    conv2d_polynomial_s8_dsp_products(&job);
}

/* Computes `count` pixels, at least three, `step` bytes apart. */
__attribute__((noinline)) static void conv2d_polynomial_s8_dsp_pixels(const ge_conv2d_params *p, const int8_t *x,
                                                                      const uint32_t *stream, int8_t *out, int32_t step,
                                                                      int32_t count, uint32_t *words) {
    const int32_t size = 2 * CONV2D_POLYNOMIAL_S8_DSP_IN;
    const int32_t threes = count / 3;
    const int32_t last = count - 3;
    for (int32_t i = 0; i < threes; i++) {
        conv2d_polynomial_s8_dsp_three(x + 3 * i * step, step, words + i * size);
    }
    if (3 * threes < count) {
        conv2d_polynomial_s8_dsp_three(x + last * step, step, words + threes * size);
    }
    conv2d_polynomial_s8_dsp_multiply(p, stream, words, out, threes);
    if (3 * threes < count) {
        conv2d_polynomial_s8_dsp_multiply(p, stream, words + threes * size, out + last * p->out_c, 1);
    }
    if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
        ge_dsp_clamp(out, count * p->out_c, p->lo, p->hi);
    }
}

static void ge_conv2d_polynomial_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                        const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t step = p->stride_w * p->in_c;
    const int32_t together = x->slots == NULL && out->slots == NULL && x->stride * p->stride_h == p->out_w * step &&
                             out->stride == p->out_w * p->out_c;
    const int32_t pixels = together ? (last_row - first_row) * p->out_w : p->out_w;
    for (int32_t y = first_row; y < last_row; y = together ? last_row : y + 1) {
        const int8_t *from = (const int8_t *)ge_row(x, y * p->stride_h);
        int8_t *to = (int8_t *)ge_row(out, y);
        int32_t count = 0;
        for (int32_t done = 0; done < pixels; done += count) {
            const int32_t left = pixels - done;
            const int32_t most = CONV2D_POLYNOMIAL_S8_DSP_TILE;
            count = left <= most ? left : (left - most < 3 ? most - 3 : most); /* never fewer than three are left */
            conv2d_polynomial_s8_dsp_pixels(p, from, stream, to, step, count, (uint32_t *)scratch);
            from += count * step;
            to += count * p->out_c;
        }
    }
}
