/* Depthwise convolution of int8 [H, W, C] with any window, C at least 4, for Cortex-M4, M7 and M33.
 *
 * It computes four channels of one output at a time: SXTB16 makes (x0, x2) and (x1, x3) of a word of input, and weights
 * are stored as words (w0, w2) and (w1, w3). All taps in padding read the same word of zero points. Cost: about 12
 * cycles for the 4 products of a tap, and 90 per 4 outputs. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

/* The sums of four channels, 0 2 1 3. */
typedef struct {
    int32_t a, b, c, d;
} depthwise_s8_dsp_sums;

/* Adds `count` taps whose inputs are `step` bytes apart; returns the next weights. */
static inline const uint32_t *depthwise_s8_dsp_taps(const int8_t *x, int32_t step, int32_t count, const uint32_t *w,
                                                    depthwise_s8_dsp_sums *sums) {
    int32_t a = sums->a, b = sums->b, c = sums->c, d = sums->d;
    uint32_t s, t, u, y;
    if (count <= 0) {
        return w;
    }
    __asm__ volatile("    .balign 4\n"
                     "1:\n"
                     "    ldr.w %[s], [%[x]]\n"
                     "    ldr.w %[u], [%[w], #4]\n"
                     "    ldr.w %[t], [%[w]], #8\n"
                     "    add.w %[x], %[x], %[step]\n"
                     "    subs %[n], %[n], #1\n"
                     "    sxtb16 %[y], %[s]\n"
                     "    sxtb16 %[s], %[s], ror #8\n"
                     "    smlabb %[a], %[y], %[t], %[a]\n"
                     "    smlatt %[b], %[y], %[t], %[b]\n"
                     "    smlabb %[c], %[s], %[u], %[c]\n"
                     "    smlatt %[d], %[s], %[u], %[d]\n"
                     "    bne 1b\n"
                     : [x] "+&r"(x), [w] "+&r"(w), [n] "+&r"(count), [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c),
                       [d] "+&r"(d), [s] "=&r"(s), [t] "=&r"(t), [u] "=&r"(u), [y] "=&r"(y)
                     : [step] "r"(step)
                     : "cc", "memory");
    sums->a = a;
    sums->b = b;
    sums->c = c;
    sums->d = d;
    return w;
}

/* ssat8((acc * multiplier + 2^31 >> 32) + zero_point) */
static inline int8_t depthwise_s8_dsp_output(int32_t acc, int32_t multiplier, int32_t zero_point) {
    int32_t y;
    __asm__("smmlar %[y], %[acc], %[m], %[z]\n\tssat %[y], #8, %[y]"
            : [y] "=&r"(y)
            : [acc] "r"(acc), [m] "r"(multiplier), [z] "r"(zero_point));
    return (int8_t)y;
}

/* Returns how many of the positions first, first + dilation ... are below `limit`, at most `taps`. */
static inline int32_t depthwise_s8_dsp_below(int32_t first, int32_t dilation, int32_t taps, int32_t limit) {
    int32_t n = 0;
    while (n < taps && first + n * dilation < limit) {
        n++;
    }
    return n;
}

/* Computes all channels of the output at (y, ox). */
static void depthwise_s8_dsp_pixel(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream, int32_t y,
                                   int32_t ox, int8_t *o) {
    const uint32_t zero = ((uint32_t)p->in_zero_point & 0xFFu) * 0x01010101u;
    const int32_t left = ox * p->stride_w - p->pad_left;
    const int32_t before = depthwise_s8_dsp_below(left, p->dilation_w, p->kernel_w, 0);
    const int32_t inside = depthwise_s8_dsp_below(left, p->dilation_w, p->kernel_w, p->in_w) - before;
    const int32_t first = (left + before * p->dilation_w) * p->in_c;
    const int8_t *const pad = (const int8_t *)&zero;
    const int32_t rest = p->out_c & 3;
    for (int32_t c = 0; c < p->out_c; c += c == 0 && rest != 0 ? rest : 4) {
        depthwise_s8_dsp_sums s = {(int32_t)stream[0], (int32_t)stream[1], (int32_t)stream[2], (int32_t)stream[3]};
        const uint32_t *w = stream + 8;
        if (p->kernel_w == 1 && x->slots == NULL && inside == 1) { /* a column of taps is one run, like a row of taps */
            const int32_t top = y * p->stride_h - p->pad_top;
            const int32_t above = depthwise_s8_dsp_below(top, p->dilation_h, p->kernel_h, 0);
            const int32_t within = depthwise_s8_dsp_below(top, p->dilation_h, p->kernel_h, p->in_h) - above;
            const int8_t *from = (const int8_t *)ge_row(x, top + above * p->dilation_h) + first + c;
            w = depthwise_s8_dsp_taps(pad, 0, above, w, &s);
            w = depthwise_s8_dsp_taps(from, p->dilation_h * x->stride, within, w, &s);
            w = depthwise_s8_dsp_taps(pad, 0, p->kernel_h - above - within, w, &s);
        }
        for (int32_t ky = 0; ky < p->kernel_h && (p->kernel_w > 1 || x->slots != NULL || inside == 0); ky++) {
            const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
            if (iy < 0 || iy >= p->in_h) {
                w = depthwise_s8_dsp_taps(pad, 0, p->kernel_w, w, &s);
            } else {
                w = depthwise_s8_dsp_taps(pad, 0, before, w, &s);
                w = depthwise_s8_dsp_taps((const int8_t *)ge_row(x, iy) + first + c, p->dilation_w * p->in_c, inside, w,
                                          &s);
                w = depthwise_s8_dsp_taps(pad, 0, p->kernel_w - before - inside, w, &s);
            }
        }
        o[c] = depthwise_s8_dsp_output(s.a, (int32_t)stream[4], p->out_zero_point);
        o[c + 1] = depthwise_s8_dsp_output(s.c, (int32_t)stream[5], p->out_zero_point);
        o[c + 2] = depthwise_s8_dsp_output(s.b, (int32_t)stream[6], p->out_zero_point);
        o[c + 3] = depthwise_s8_dsp_output(s.d, (int32_t)stream[7], p->out_zero_point);
        stream = w;
    }
}

static void ge_depthwise_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream, const ge_rows *out,
                                int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            depthwise_s8_dsp_pixel(p, x, stream, y, ox, o + ox * p->out_c);
        }
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(o, p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}
