/* Depthwise convolution of int16 [H, W, C] with weights of int8 or int16, any window and any number of outputs per
 * channel, for Cortex-M4, M7 and M33: four channels of one output at a time.
 *
 * Inputs have no zero point, so taps in padding add nothing. For four channels the stream holds their biases, their
 * multipliers, and for each tap two words of int16 or one of int8, whose bytes are channels 0, 2, 1, 3, so that SXTB16
 * makes pairs. Where channels are contiguous, a word holds the inputs of two of them. All sums fit 32 bits;
 * requantization has shift 32. Cost: 15 cycles for the 4 products of a tap. */
#include "ge.h"
#include "ge_dsp_wide.h"
#include "ge_params.h"
#include "ge_thumb_pool.h"

#define DEPTHWISE_S16_DSP_WORDS 1 /* words of the weights of a tap: 1 of int8, 2 of int16 */

/* The position of a window, and the input channels of its four outputs. */
typedef struct {
    ge_thumb_span rows, columns;
    int32_t top, left;
    int32_t from[4];
} depthwise_s16_dsp_window;

/* Loads the weights of channels 0 and 1, and of 2 and 3, of a tap. */
#define DEPTHWISE_S16_DSP_PAIRS(w, a, b)                                                                               \
    if (DEPTHWISE_S16_DSP_WORDS == 1) {                                                                                \
        __asm__("sxtb16 %[r], %[t]" : [r] "=r"(a) : [t] "r"((w)[0]));                                                  \
        __asm__("sxtb16 %[r], %[t], ror #8" : [r] "=r"(b) : [t] "r"((w)[0]));                                          \
    } else {                                                                                                           \
        (a) = (w)[0];                                                                                                  \
        (b) = (w)[1];                                                                                                  \
    }

#define DEPTHWISE_S16_DSP_ADD(op, sum, x, w) __asm__(op " %0, %1, %2, %0" : "+r"(sum) : "r"(x), "r"(w))

/* Computes four sums. next: whether the four inputs are contiguous. */
static inline void depthwise_s16_dsp_four(const ge_conv2d_s16_params *p, const ge_rows *x,
                                          const depthwise_s16_dsp_window *at, const uint32_t *stream, int32_t next,
                                          int32_t *sums) {
    const int32_t step = p->dilation_w * p->in_c;
    const int32_t f1 = at->from[1] - at->from[0], f2 = at->from[2] - at->from[0], f3 = at->from[3] - at->from[0];
    int32_t s0 = (int32_t)stream[0], s1 = (int32_t)stream[1], s2 = (int32_t)stream[2], s3 = (int32_t)stream[3];
    for (int32_t ky = at->rows.first; ky < at->rows.last; ky++) {
        const int16_t *from = (const int16_t *)ge_row(x, at->top + ky * p->dilation_h) + at->from[0];
        const uint32_t *w = stream + 8 + DEPTHWISE_S16_DSP_WORDS * (ky * p->kernel_w + at->columns.first);
        from += (at->left + at->columns.first * p->dilation_w) * p->in_c;
        for (int32_t n = at->columns.last - at->columns.first; n > 0; n--) {
            uint32_t a, b, wa, wb;
            DEPTHWISE_S16_DSP_PAIRS(w, wa, wb)
            if (next) {
                memcpy(&a, from, 4);
                memcpy(&b, from + 2, 4);
                DEPTHWISE_S16_DSP_ADD("smlabb", s0, a, wa);
                DEPTHWISE_S16_DSP_ADD("smlatt", s1, a, wa);
                DEPTHWISE_S16_DSP_ADD("smlabb", s2, b, wb);
                DEPTHWISE_S16_DSP_ADD("smlatt", s3, b, wb);
            } else {
                DEPTHWISE_S16_DSP_ADD("smlabb", s0, from[0], wa);
                DEPTHWISE_S16_DSP_ADD("smlabt", s1, from[f1], wa);
                DEPTHWISE_S16_DSP_ADD("smlabb", s2, from[f2], wb);
                DEPTHWISE_S16_DSP_ADD("smlabt", s3, from[f3], wb);
            }
            from += step;
            w += DEPTHWISE_S16_DSP_WORDS;
        }
    }
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
}

/* Computes all channels of the output at (y, ox). */
static GE_NOINLINE void depthwise_s16_dsp_pixel(const ge_conv2d_s16_params *p, const ge_rows *x, const uint32_t *stream,
                                                depthwise_s16_dsp_window *at, int16_t *o) {
    const int32_t each = p->out_c / p->in_c;
    const int32_t rest = p->out_c > 4 ? p->out_c & 3 : 0;
    const int32_t count = p->out_c < 4 ? p->out_c : 4;
    for (int32_t first = 0; first < p->out_c; first += first == 0 && rest != 0 ? rest : 4) {
        int32_t sums[4];
        for (int32_t i = 0; i < 4; i++) {
            at->from[i] = (first + (i < count ? i : 0)) / each;
        }
        if (each == 1 && count == 4) {
            depthwise_s16_dsp_four(p, x, at, stream, 1, sums);
        } else {
            depthwise_s16_dsp_four(p, x, at, stream, 0, sums);
        }
        for (int32_t i = 0; i < count; i++) {
            int32_t y = sums[i];
            __asm__("smmlar %0, %0, %1, %2\n\tssat %0, #16, %0"
                    : "+r"(y)
                    : "r"(stream[4 + i]), "r"((int32_t)p->out_zero_point));
            o[first + i] = (int16_t)y;
        }
        stream += 8 + DEPTHWISE_S16_DSP_WORDS * p->kernel_h * p->kernel_w;
    }
}

static void ge_depthwise_s16_dsp(const ge_conv2d_s16_params *p, const ge_rows *x, const uint32_t *stream,
                                 const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    depthwise_s16_dsp_window at;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int16_t *const o = (int16_t *)ge_row(out, y);
        at.top = y * p->stride_h - p->pad_top;
        at.rows = ge_thumb_span_of(at.top, p->kernel_h, p->dilation_h, 0, p->in_h);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            at.left = ox * p->stride_w - p->pad_left;
            at.columns = ge_thumb_span_of(at.left, p->kernel_w, p->dilation_w, 0, p->in_w);
            depthwise_s16_dsp_pixel(p, x, stream, &at, o + ox * p->out_c);
        }
        if (p->lo > INT16_MIN || p->hi < INT16_MAX) {
            ge_dsp_wide_clamp(o, p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}
