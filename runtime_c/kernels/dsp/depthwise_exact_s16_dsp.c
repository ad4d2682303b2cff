/* Depthwise convolution of int16 [H, W, C] with weights whose sums need 64 bits, any window, for Cortex-M4, M7 and M33: two
 * channels of one output at a time.
 *
 * Inputs have no zero point, so that taps in padding add nothing. The stream has for two channels their biases (64 bits each),
 * multipliers, and a word of weights for each tap; the last two of an odd number begin inside the first. 9 cycles for the 2 products
 * of a tap. */
#include "ge.h"
#include "ge_isa_dsp_exact.h"
#include "ge_params.h"
#include "ge_thumb_pool.h"

/* Where a window lies. */
typedef struct {
    ge_thumb_span rows, columns;
    int32_t top, left;
} depthwise_exact_s16_dsp_window;

static int64_t depthwise_exact_s16_dsp_bias(const uint32_t *words) {
    return (int64_t)((uint64_t)words[1] << 32 | words[0]);
}

/* Two channels, of which the inputs of the second lie `next` elements further. */
static inline void depthwise_exact_s16_dsp_two(const ge_conv2d_s16_params *p, const ge_rows *x,
                                               const depthwise_exact_s16_dsp_window *at, const uint32_t *stream,
                                               int32_t c, int32_t next, const ge_dsp_exact_law *law, int16_t *o) {
    const int32_t step = p->dilation_w * p->in_c;
    int64_t s = depthwise_exact_s16_dsp_bias(stream), t = depthwise_exact_s16_dsp_bias(stream + 2);
    for (int32_t ky = at->rows.first; ky < at->rows.last; ky++) {
        const int16_t *from = (const int16_t *)ge_row(x, at->top + ky * p->dilation_h) + c;
        const uint32_t *w = stream + 6 + ky * p->kernel_w + at->columns.first;
        from += (at->left + at->columns.first * p->dilation_w) * p->in_c;
        for (int32_t n = at->columns.last - at->columns.first; n > 0; n--) {
            const uint32_t weights = *w++;
            if (next == 1) {
                uint32_t word;
                memcpy(&word, from, 4);
                __asm__("smlalbb %Q0, %R0, %1, %2" : "+r"(s) : "r"(word), "r"(weights));
                __asm__("smlaltt %Q0, %R0, %1, %2" : "+r"(t) : "r"(word), "r"(weights));
            } else {
                __asm__("smlalbb %Q0, %R0, %1, %2" : "+r"(s) : "r"(from[0]), "r"(weights));
                __asm__("smlalbt %Q0, %R0, %1, %2" : "+r"(t) : "r"(from[next]), "r"(weights));
            }
            from += step;
        }
    }
    o[1] = ge_dsp_exact_output(law, (uint32_t)(uint64_t)t, (int32_t)(t >> 32), (int32_t)stream[5]);
    o[0] = ge_dsp_exact_output(law, (uint32_t)(uint64_t)s, (int32_t)(s >> 32), (int32_t)stream[4]);
}

/* All channels of the output at (y, ox). */
static GE_NOINLINE void depthwise_exact_s16_dsp_pixel(const ge_conv2d_s16_params *p, const ge_rows *x,
                                                      const uint32_t *stream, const depthwise_exact_s16_dsp_window *at,
                                                      const ge_dsp_exact_law *law, int16_t *o) {
    const int32_t each = p->out_c / p->in_c;
    for (int32_t first = 0; first < p->out_c; first += first == 0 && (p->out_c & 1) != 0 ? 1 : 2) {
        const int32_t c = first / each;
        int16_t one[2];
        if (p->out_c == 1) {
            depthwise_exact_s16_dsp_two(p, x, at, stream, 0, 0, law, one);
            o[0] = one[0];
        } else if (each == 1) {
            depthwise_exact_s16_dsp_two(p, x, at, stream, c, 1, law, o + first);
        } else {
            depthwise_exact_s16_dsp_two(p, x, at, stream, c, (first + 1) / each - c, law, o + first);
        }
        stream += 6 + p->kernel_h * p->kernel_w;
    }
}

static void ge_depthwise_exact_s16_dsp(const ge_conv2d_s16_params *p, const ge_rows *x, const uint32_t *stream,
                                       const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const ge_dsp_exact_law law = GE_DSP_EXACT_LAW(p);
    depthwise_exact_s16_dsp_window at;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int16_t *const o = (int16_t *)ge_row(out, y);
        at.top = y * p->stride_h - p->pad_top;
        at.rows = ge_thumb_span_of(at.top, p->kernel_h, p->dilation_h, 0, p->in_h);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            at.left = ox * p->stride_w - p->pad_left;
            at.columns = ge_thumb_span_of(at.left, p->kernel_w, p->dilation_w, 0, p->in_w);
            depthwise_exact_s16_dsp_pixel(p, x, stream, &at, &law, o + ox * p->out_c);
        }
    }
}
