/* Convolution 1x1 of int8 [H, W, C] for Cortex-M4, M7 and M33 with three products in one multiplication.
 *
 * With z = 2^21, a word of weights holds two channels, w0 + w1 z, and a word of inputs two pixels, x0 + x1 z. One SMLAL of
 * both adds three sums up in 64 bits: (w0 x0) + (w0 x1 + w1 x0) z + (w1 x1) z^2. With a second word x1 + x2 z there are two
 * such words U, V for two channels and three pixels, and the mixed sums come apart: the lowest field of V is w0 x1.
 * Sums begin at 2^20 (the mixed ones at 2^21), so that no field borrows from the next; bias takes it off again.
 * Exact where each sum of products of a channel is below 2^20, which the compiler proves. Weights take two bytes each.
 *
 * 4 channels x 3 pixels: r0 weights, r1 x, r2-r9 U01 V01 U23 V23 (low, high), r10 r11 weights, r12 lr x.
 * 9 cycles for 12 products, 107 for each 12 outputs besides, 4 more for each turn of a loop of more than one.
 * Pixels come in threes; where three do not divide them the last three begin earlier, and some outputs are made twice.
 *
 * scratch: two words for each channel of three pixels: (x0, x1), (x1, x2). */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

#define CONV2D_POLYNOMIAL_S8_DSP_IN 16     /* channels, a multiple of 4 */
#define CONV2D_POLYNOMIAL_S8_DSP_OUT 16    /* channels: bytes from output to output */
#define CONV2D_POLYNOMIAL_S8_DSP_TILE 12   /* pixels in scratch, a multiple of 3 */
#define CONV2D_POLYNOMIAL_S8_DSP_UNROLL 16 /* steps in the loop */
#define CONV2D_POLYNOMIAL_S8_DSP_UP 0      /* 32 - shift */

/* In the order of registers s0-s5. */
typedef struct {
    const uint32_t *x;
    int8_t *out;
    const uint32_t *x_end;
    int32_t groups; /* of four channels */
    const uint32_t
        *w; /* for each group: two words for each k, then for each channel bias - 2^20 (times 2^up), multiplier */
    int32_t zero_point;
} conv2d_polynomial_s8_dsp_job;

/* Two channels: sums from U (ul, uh) and V (vl, vh) to outputs, `at` and `at` + 1. */
#define CONV2D_POLYNOMIAL_S8_DSP_STORE(ul, uh, vl, vh, at)                                                             \
    "    vmov r12, s8\n"                                                                                               \
    "    ubfx r10, " vl ", #0, #21\n"                                                                                  \
    "    smlal " ul ", " uh ", r10, r12\n"                                                                             \
    "    vmov r1, s5\n"                                                                                                \
    "    lsr.w r11, " uh ", #10\n"                                                                                     \
    "    smlal " vl ", " vh ", r11, r12\n"                                                                             \
    "    ubfx r12, " ul ", #0, #21\n"                                                                                  \
    "    lsr.w " ul ", " ul ", #21\n"                                                                                  \
    "    bfi " ul ", " uh ", #11, #10\n"                                                                               \
    "    ldr.w " uh ", [r0], #4\n"                                                                                     \
    "    ldr.w lr, [r0], #4\n"                                                                                         \
    "    lsr.w " vl ", " vl ", #21\n"                                                                                  \
    "    bfi " vl ", " vh ", #11, #10\n"                                                                               \
    "    lsr.w " vh ", " vh ", #10\n"                                                                                  \
    "    add.w r12, " uh ", r12, lsl #ge_up\n"                                                                         \
    "    add.w r10, " uh ", r10, lsl #ge_up\n"                                                                         \
    "    add.w " vl ", " uh ", " vl ", lsl #ge_up\n"                                                                   \
    "    smmlar r12, r12, lr, r1\n"                                                                                    \
    "    smmlar r10, r10, lr, r1\n"                                                                                    \
    "    smmlar " vl ", " vl ", lr, r1\n"                                                                              \
    "    ldr.w " uh ", [r0], #4\n"                                                                                     \
    "    ldr.w lr, [r0], #4\n"                                                                                         \
    "    ssat r12, #8, r12\n"                                                                                          \
    "    ssat r10, #8, r10\n"                                                                                          \
    "    ssat " vl ", #8, " vl "\n"                                                                                    \
    "    add.w " ul ", " uh ", " ul ", lsl #ge_up\n"                                                                   \
    "    add.w r11, " uh ", r11, lsl #ge_up\n"                                                                         \
    "    add.w " vh ", " uh ", " vh ", lsl #ge_up\n"                                                                   \
    "    vmov " uh ", s7\n"                                                                                            \
    "    smmlar " ul ", " ul ", lr, r1\n"                                                                              \
    "    smmlar r11, r11, lr, r1\n"                                                                                    \
    "    smmlar " vh ", " vh ", lr, r1\n"                                                                              \
    "    ssat " ul ", #8, " ul "\n"                                                                                    \
    "    ssat r11, #8, r11\n"                                                                                          \
    "    ssat " vh ", #8, " vh "\n"                                                                                    \
    "    strb.w r12, [" uh ", #" at "]\n"                                                                              \
    "    strb.w " ul ", [" uh ", #" at "+1]\n"                                                                         \
    "    strb.w r10, [" uh ", #" at "+ge_out]\n"                                                                       \
    "    strb.w r11, [" uh ", #" at "+ge_out+1]\n"                                                                     \
    "    strb.w " vl ", [" uh ", #" at "+2*ge_out]\n"                                                                  \
    "    strb.w " vh ", [" uh ", #" at "+2*ge_out+1]\n"

/* All channels of threes of pixels that follow each other. */
__attribute__((noinline)) static void conv2d_polynomial_s8_dsp_products(const conv2d_polynomial_s8_dsp_job *job) {
    register const conv2d_polynomial_s8_dsp_job *r0 __asm__("r0") = job;
    /* clang-format off */
    __asm__ volatile(
        "    .set ge_steps, %c[steps]\n"
        "    .set ge_unroll, %c[unroll]\n"
        "    .set ge_out, %c[out]\n"
        "    .set ge_up, %c[up]\n"
        "    .set ge_turns, ge_steps/ge_unroll\n"
        "    .set ge_rest, ge_steps-ge_turns*ge_unroll\n"
        "    vldmia r0, {s0-s5}\n"
        "    vmov s15, r7\n"
        "    movw r1, #0x400\n"
        "    movt r1, #0x4000\n"
        "    vmov s9, r1\n" /* the upper half of what sums begin at */
        "    mvn.w r1, #0x1F0000\n"
        "    sub.w r1, r1, #0xFF00\n"
        "    sub.w r1, r1, #0xFF\n"
        "    vmov s8, r1\n" /* -z */
        "    .balign 4\n"
        "1:\n" /* four channels */
        "    vmov r0, s4\n"
        "    vmov r1, s0\n"
        "    movw r12, #8*ge_steps\n"
        "    add.w r12, r12, r0\n"
        "    vmov s6, r12\n" /* end of the weights */
        "    vmov.f32 s7, s1\n"
        "    .balign 4\n"
        "2:\n" /* three pixels */
        "    vmov r0, s4\n"
        "    vmov r3, s9\n"
        "    mov.w r2, #0x100000\n"
        "    mov r5, r3\n"
        "    mov r4, r2\n"
        "    mov r7, r3\n"
        "    mov r6, r2\n"
        "    mov r9, r3\n"
        "    mov r8, r2\n"
        "    .if ge_rest && ge_turns\n"
        "    b.w 3f + (ge_unroll-ge_rest)*32\n"
        "    .endif\n"
        "    .balign 4\n"
        "3:\n"
        "    .rept ge_unroll\n"
        "    ldr.w r10, [r0], #4\n"
        "    ldr.w r11, [r0], #4\n"
        "    ldr.w r12, [r1], #4\n"
        "    ldr.w lr, [r1], #4\n"
        "    smlal r2, r3, r10, r12\n"
        "    smlal r4, r5, r10, lr\n"
        "    smlal r6, r7, r11, r12\n"
        "    smlal r8, r9, r11, lr\n"
        "    .endr\n"
        "    .if ge_steps > ge_unroll\n"
        "    vmov r12, s6\n"
        "    cmp.w r0, r12\n"
        "    bne.w 3b\n"
        "    .endif\n"
        "    vmov s10, r1\n"
        CONV2D_POLYNOMIAL_S8_DSP_STORE("r2", "r3", "r4", "r5", "0")
        CONV2D_POLYNOMIAL_S8_DSP_STORE("r6", "r7", "r8", "r9", "2")
        "    vmov r1, s10\n"
        "    vmov r12, s2\n"
        "    addw r7, r7, #3*ge_out\n"
        "    cmp.w r1, r12\n"
        "    vmov s7, r7\n"
        "    bne.w 2b\n"

        "    vmov s4, r0\n" /* the next group begins where this one ends */
        "    vmov r1, s1\n"
        "    add.w r1, r1, #4\n"
        "    vmov s1, r1\n"
        "    vmov r1, s3\n"
        "    subs.w r1, r1, #1\n"
        "    vmov s3, r1\n"
        "    bne.w 1b\n"
        "    vmov r7, s15\n"
        : "+r"(r0)
        : [steps] "i"(CONV2D_POLYNOMIAL_S8_DSP_IN), [unroll] "i"(CONV2D_POLYNOMIAL_S8_DSP_UNROLL),
          [out] "i"(CONV2D_POLYNOMIAL_S8_DSP_OUT), [up] "i"(CONV2D_POLYNOMIAL_S8_DSP_UP)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory", "s0", "s1", "s2",
          "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s15");
    /* clang-format on */
}

/* Four bytes of each of three pixels: byte ROR / 8 of them. */
#define CONV2D_POLYNOMIAL_S8_DSP_BYTE(ror)                                                                             \
    "    sxtb.w %[d], %[a]" ror "\n"                                                                                   \
    "    sxtb.w %[e], %[b]" ror "\n"                                                                                   \
    "    sxtb.w %[f], %[c]" ror "\n"                                                                                   \
    "    add.w %[d], %[d], %[e], lsl #21\n"                                                                            \
    "    add.w %[e], %[e], %[f], lsl #21\n"                                                                            \
    "    str.w %[d], [%[y]], #4\n"                                                                                     \
    "    str.w %[e], [%[y]], #4\n"

/* Three pixels, `step` bytes from each to the next, as words. 2.9 cycles for each channel of a pixel. */
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

/* All channels of `threes` times three pixels whose words are at x. */
static void conv2d_polynomial_s8_dsp_multiply(const ge_conv2d_params *p, const uint32_t *w, const uint32_t *x,
                                              int8_t *out, int32_t threes) {
    const int32_t rest = CONV2D_POLYNOMIAL_S8_DSP_OUT & 3;
    const uint32_t *const end = x + threes * 2 * CONV2D_POLYNOMIAL_S8_DSP_IN;
    conv2d_polynomial_s8_dsp_job job = {x, out, end, CONV2D_POLYNOMIAL_S8_DSP_OUT / 4, w, p->out_zero_point};
    if (rest != 0) {
        job.groups = 1;
        conv2d_polynomial_s8_dsp_products(&job);
        job.w += 2 * CONV2D_POLYNOMIAL_S8_DSP_IN + 8;
        job.groups = CONV2D_POLYNOMIAL_S8_DSP_OUT / 4;
        job.out += rest;
    }
    conv2d_polynomial_s8_dsp_products(&job);
}

/* `count` pixels, three or more, `step` bytes from each to the next. */
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
