/* Depthwise convolution of float32 [H, W, C] with any window and any number of outputs per channel, for cores with a
 * single-precision FPU: four channels of one output at a time.
 *
 * Each output is one chain of additions: its bias, then the products of the taps inside the input; a tap in padding
 * would add a zero, which changes no sum. For four channels the stream holds their biases, then the four weights of
 * each tap; where the number of channels is not a multiple of four, the second four overlap the first. Cost: 23 cycles
 * for the 4 products of a tap. */
#include "ge.h"
#include "ge_float.h"
#include "ge_params.h"
#include "ge_thumb_pool.h"

/* The position of a window, and the input channels of its four outputs. */
typedef struct {
    ge_thumb_span rows, columns;
    int32_t top, left;
    int32_t from[4];
} depthwise_f32_dsp_window;

/* Computes four sums. next: whether the four inputs are contiguous. */
static inline void depthwise_f32_dsp_four(const ge_conv2d_f32_params *p, const ge_rows *x,
                                          const depthwise_f32_dsp_window *at, const float *stream, int32_t next,
                                          float *sums) {
    const int32_t step = p->dilation_w * p->in_c;
    const int32_t b = next ? 1 : at->from[1] - at->from[0], c = next ? 2 : at->from[2] - at->from[0];
    const int32_t d = next ? 3 : at->from[3] - at->from[0];
    float s0 = stream[0], s1 = stream[1], s2 = stream[2], s3 = stream[3];
    for (int32_t ky = at->rows.first; ky < at->rows.last; ky++) {
        const float *from = (const float *)ge_row(x, at->top + ky * p->dilation_h) + at->from[0];
        const float *w = stream + 4 + 4 * (ky * p->kernel_w + at->columns.first);
        from += (at->left + at->columns.first * p->dilation_w) * p->in_c;
        for (int32_t n = at->columns.last - at->columns.first; n > 0; n--) {
            s0 += from[0] * w[0];
            s1 += from[b] * w[1];
            s2 += from[c] * w[2];
            s3 += from[d] * w[3];
            from += step;
            w += 4;
        }
    }
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
}

/* Computes all channels of the output at (y, ox). */
static GE_NOINLINE void depthwise_f32_dsp_pixel(const ge_conv2d_f32_params *p, const ge_rows *x, const float *stream,
                                                depthwise_f32_dsp_window *at, float *o) {
    const int32_t each = p->out_c / p->in_c;
    const int32_t rest = p->out_c > 4 ? p->out_c & 3 : 0;
    const int32_t count = p->out_c < 4 ? p->out_c : 4;
    for (int32_t first = 0; first < p->out_c; first += first == 0 && rest != 0 ? rest : 4) {
        float sums[4];
        for (int32_t i = 0; i < 4; i++) {
            at->from[i] = (first + (i < count ? i : 0)) / each;
        }
        if (each == 1 && count == 4) {
            depthwise_f32_dsp_four(p, x, at, stream, 1, sums);
        } else {
            depthwise_f32_dsp_four(p, x, at, stream, 0, sums);
        }
        for (int32_t i = 0; i < count; i++) {
            o[first + i] = ge_clamp_f32(sums[i], p->lo, p->hi);
        }
        stream += 4 + 4 * p->kernel_h * p->kernel_w;
    }
}

static void ge_depthwise_f32_dsp(const ge_conv2d_f32_params *p, const ge_rows *x, const float *stream,
                                 const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    depthwise_f32_dsp_window at;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        float *const o = (float *)ge_row(out, y);
        at.top = y * p->stride_h - p->pad_top;
        at.rows = ge_thumb_span_of(at.top, p->kernel_h, p->dilation_h, 0, p->in_h);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            at.left = ox * p->stride_w - p->pad_left;
            at.columns = ge_thumb_span_of(at.left, p->kernel_w, p->dilation_w, 0, p->in_w);
            depthwise_f32_dsp_pixel(p, x, stream, &at, o + ox * p->out_c);
        }
    }
}
