/* Convolution of int8 [H, W, C] with few products per output (first layers), for Cortex-M4, M7 and M33.
 *
 * One multiplication computes three products, as ge_isa_dsp_polynomial.h explains. Each element of an input row,
 * padding included, becomes one word, x[e] + x[e + stride * C] z: this works for any number of channels, and the words
 * of three pixels are at two constant distances. All products of a block are unrolled. Rows of words are kept until no
 * window needs them; when the scratch is full, those that are still needed move to its beginning. conv2d_few1_s8_dsp is
 * this file with the rows of one window in scratch. Cost: 5 cycles per word; 9 for 12 products, and 107 for 12 outputs.
 *
 * scratch: rows of words. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_law.h"
#include "ge_isa_dsp_polynomial.h"
#include "ge_params.h"

#define CONV2D_FEW_S8_DSP_HEIGHT 3 /* of the window */
#define CONV2D_FEW_S8_DSP_RUNS 1   /* runs in a row of the window: 1 where its taps are adjacent */
#define CONV2D_FEW_S8_DSP_RUN 9    /* elements in a run */
#define CONV2D_FEW_S8_DSP_TAP 12   /* bytes from run to run */
#define CONV2D_FEW_S8_DSP_LINE 408 /* bytes of words from row to row of the window */
#define CONV2D_FEW_S8_DSP_ROW 408  /* bytes of a row of words, a multiple of 16 */
#define CONV2D_FEW_S8_DSP_PIXEL 12 /* bytes from pixel to pixel */
#define CONV2D_FEW_S8_DSP_OUT 16   /* channels: bytes from output to output */
#define CONV2D_FEW_S8_DSP_TURN 8   /* rows of outputs until rows of words are moved */
#define CONV2D_FEW_S8_DSP_UP 0     /* 32 - shift */
#define CONV2D_FEW_S8_DSP_LAW 0    /* see ge_isa_dsp_law.h */

/* Computes all channels of groups of three adjacent pixels. */
__attribute__((noinline)) static void conv2d_few_s8_dsp_products(const ge_dsp_polynomial_job *job) {
    register const ge_dsp_polynomial_job *r0 __asm__("r0") = job;
    /* clang-format off */
    __asm__ volatile(
        "    .set ge_out, %c[out]\n"
        "    .set ge_up, %c[up]\n"
        "    .set ge_law, %c[law]\n"
        GE_DSP_POLYNOMIAL_BEGIN(conv2d_few_s8_dsp_products, CONV2D_FEW_S8_DSP_LAW)
        "    .balign 4\n"
        "1:\n" /* four channels */
        "    str.w r2, [sp, #4*7]\n"
        "    .balign 4\n"
        "2:\n" /* three pixels */
        GE_DSP_POLYNOMIAL_ZERO
        "    .set ge_line, 0\n"
        "    .rept %c[height]\n"
        "    .set ge_run, ge_line\n"
        "    .rept %c[runs]\n"
        "    .set ge_at, ge_run\n"
        "    .rept %c[run]\n"
        "    ldr.w r11, [r0, #4]\n"
        "    ldr.w r10, [r0], #8\n"
        "    ldr.w r12, [r1, #ge_at]\n"
        "    ldr.w lr, [r1, #ge_at+%c[pixel]]\n"
        GE_DSP_POLYNOMIAL_PRODUCTS
        "    .set ge_at, ge_at+4\n"
        "    .endr\n"
        "    .set ge_run, ge_run+%c[tap]\n"
        "    .endr\n"
        "    .set ge_line, ge_line+%c[line]\n"
        "    .endr\n"
        "    addw r1, r1, #3*%c[pixel]\n"
        GE_DSP_POLYNOMIAL_END(CONV2D_FEW_S8_DSP_LAW)
        : "+r"(r0)
        : [height] "i"(CONV2D_FEW_S8_DSP_HEIGHT), [run] "i"(CONV2D_FEW_S8_DSP_RUN), [runs] "i"(CONV2D_FEW_S8_DSP_RUNS), [tap] "i"(CONV2D_FEW_S8_DSP_TAP),
          [line] "i"(CONV2D_FEW_S8_DSP_LINE),
          [pixel] "i"(CONV2D_FEW_S8_DSP_PIXEL), [out] "i"(CONV2D_FEW_S8_DSP_OUT), [up] "i"(CONV2D_FEW_S8_DSP_UP),
          [law] "i"(CONV2D_FEW_S8_DSP_LAW)
        : GE_DSP_POLYNOMIAL_CLOBBERED(CONV2D_FEW_S8_DSP_LAW));
    /* clang-format on */
}

/* Writes to[i] = x[i] + x[i + distance] z, `count` words: a multiple of 4. */
static inline void conv2d_few_s8_dsp_words(const int8_t *x, int32_t count, uint32_t *to) {
    const int8_t *next = x + CONV2D_FEW_S8_DSP_PIXEL / 4;
    const uint32_t *const end = to + count;
    int32_t a, b, c, d, e, f, g, h;
    /* clang-format off */
    __asm__ volatile(
        "    .balign 4\n"
        "1:\n"
        "    ldrsb %[a], [%[x]], #1\n"
        "    ldrsb %[e], [%[next]], #1\n"
        "    ldrsb %[b], [%[x]], #1\n"
        "    ldrsb %[f], [%[next]], #1\n"
        "    ldrsb %[c], [%[x]], #1\n"
        "    ldrsb %[g], [%[next]], #1\n"
        "    ldrsb %[d], [%[x]], #1\n"
        "    ldrsb %[h], [%[next]], #1\n"
        "    add.w %[a], %[a], %[e], lsl #21\n"
        "    add.w %[b], %[b], %[f], lsl #21\n"
        "    add.w %[c], %[c], %[g], lsl #21\n"
        "    add.w %[d], %[d], %[h], lsl #21\n"
        "    str.w %[b], [%[to], #4]\n"
        "    str.w %[c], [%[to], #8]\n"
        "    str.w %[d], [%[to], #12]\n"
        "    str.w %[a], [%[to]], #16\n"
        "    cmp.w %[to], %[end]\n"
        "    bne.w 1b\n"
        : [x] "+&r"(x), [next] "+&r"(next), [to] "+&r"(to), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d),
          [e] "=&r"(e), [f] "=&r"(f), [g] "=&r"(g), [h] "=&r"(h)
        : [end] "r"(end)
        : "cc", "memory");
    /* clang-format on */
}

/* Moves rows of words to the beginning of scratch: `count` words, a multiple of 4 above 0. */
static inline void conv2d_few_s8_dsp_move(const uint32_t *from, uint32_t *to, int32_t count) {
    const uint32_t *const end = to + count;
    /* clang-format off */
    __asm__ volatile(
        "    .balign 4\n"
        "1:\n"
        "    ldmia.w %[from]!, {r2, r3, r12, lr}\n"
        "    stmia.w %[to]!, {r2, r3, r12, lr}\n"
        "    cmp.w %[to], %[end]\n"
        "    bne.w 1b\n"
        : [from] "+&r"(from), [to] "+&r"(to)
        : [end] "r"(end)
        : "r2", "r3", "r12", "lr", "cc", "memory");
    /* clang-format on */
}

/* Writes words first..last-1 of a row that begins at x, some of which lie in padding; all is padding where `inside` is
 * 0. */
__attribute__((noinline)) static void conv2d_few_s8_dsp_border(const ge_conv2d_params *p, const int8_t *x,
                                                               int32_t inside, int32_t first, int32_t last,
                                                               uint32_t *to) {
    const int32_t zero = p->in_zero_point;
    const int32_t distance = CONV2D_FEW_S8_DSP_PIXEL / 4;
    const int32_t left = p->pad_left * p->in_c;
    for (int32_t i = first - left; i < last - left; i++) {
        const int32_t low = (uint32_t)i < (uint32_t)inside ? x[i] : zero;
        const int32_t high = (uint32_t)(i + distance) < (uint32_t)inside ? x[i + distance] : zero;
        to[i + left] = (uint32_t)low + ((uint32_t)high << 21);
    }
}

/* Writes input row iy, or padding, as a row of words. */
static void conv2d_few_s8_dsp_row(const ge_conv2d_params *p, const ge_rows *x, int32_t iy, uint32_t *to) {
    const int32_t count = CONV2D_FEW_S8_DSP_ROW / 4;
    const int32_t there = iy >= 0 && iy < p->in_h;
    const int8_t *const row = there ? (const int8_t *)ge_row(x, iy) : NULL;
    const int32_t inside = there ? p->in_w * p->in_c : 0;
    const int32_t left = p->pad_left * p->in_c < count ? p->pad_left * p->in_c : count;
    const int32_t most = inside - CONV2D_FEW_S8_DSP_PIXEL / 4;
    const int32_t plain = (most < count - left ? most : count - left) & ~3;
    const int32_t behind = plain > 0 ? left + plain : left;
    conv2d_few_s8_dsp_border(p, row, inside, 0, left, to);
    if (plain > 0) {
        conv2d_few_s8_dsp_words(row, plain, to + left);
    }
    conv2d_few_s8_dsp_border(p, row, inside, behind, count, to);
}

/* Computes all channels of `threes` times three pixels from `pixel` on. */
static void conv2d_few_s8_dsp_multiply(const ge_conv2d_params *p, const uint32_t *w, const uint32_t *window,
                                       int8_t *out, int32_t pixel, int32_t threes) {
    const int32_t rest = CONV2D_FEW_S8_DSP_OUT & 3;
    const uint32_t *const x = window + pixel * (CONV2D_FEW_S8_DSP_PIXEL / 4);
    ge_dsp_polynomial_job job = {x,
                                 out + pixel * CONV2D_FEW_S8_DSP_OUT,
                                 x + 3 * threes * (CONV2D_FEW_S8_DSP_PIXEL / 4),
                                 CONV2D_FEW_S8_DSP_OUT / 4,
                                 w,
                                 p->out_zero_point};
    if (rest != 0) {
        job.groups = 1;
        conv2d_few_s8_dsp_products(&job);
        job.w += 2 * CONV2D_FEW_S8_DSP_HEIGHT * CONV2D_FEW_S8_DSP_RUNS * CONV2D_FEW_S8_DSP_RUN +
                 GE_DSP_LAW_WORDS(CONV2D_FEW_S8_DSP_LAW);
        job.groups = CONV2D_FEW_S8_DSP_OUT / 4;
        job.out += rest;
    }
    conv2d_few_s8_dsp_products(&job);
}

/* A separate function: otherwise its stack frame would exist during the calls of all other kernels. */
__attribute__((noinline)) static void conv2d_few_s8_dsp_run(const ge_conv2d_params *p, const ge_rows *x,
                                                            const uint32_t *stream, const ge_rows *out,
                                                            int32_t first_row, int32_t last_row, uint32_t *rows) {
    const int32_t row = CONV2D_FEW_S8_DSP_ROW / 4;
    const int32_t apart = CONV2D_FEW_S8_DSP_LINE / CONV2D_FEW_S8_DSP_ROW;
    const int32_t span = (p->kernel_h - 1) * apart + 1;
    const int32_t kept = p->stride_h < span ? span - p->stride_h : 0;
    const int32_t between = p->stride_h % apart != 0; /* rows between windows, which are never read */
    uint32_t *window = rows;
    for (int32_t y = first_row; y < last_row; y++) {
        uint32_t *const before = window + p->stride_h * row;
        window = (y - first_row) % CONV2D_FEW_S8_DSP_TURN == 0 ? rows : before;
        if (window == rows && y > first_row && kept > 0) {
            conv2d_few_s8_dsp_move(before, window, kept * row);
        }
        for (int32_t i = y > first_row ? kept : 0; i < span; i++) {
            if (between || i % apart == 0) {
                conv2d_few_s8_dsp_row(p, x, y * p->stride_h - p->pad_top + i, window + i * row);
            }
        }
        int8_t *const to = (int8_t *)ge_row(out, y);
        conv2d_few_s8_dsp_multiply(p, stream, window, to, 0, p->out_w / 3);
        if (p->out_w % 3 != 0) {
            conv2d_few_s8_dsp_multiply(p, stream, window, to, p->out_w - 3, 1);
        }
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(to, p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}

static void ge_conv2d_few_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                 const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    conv2d_few_s8_dsp_run(p, x, stream, out, first_row, last_row, (uint32_t *)scratch);
}
