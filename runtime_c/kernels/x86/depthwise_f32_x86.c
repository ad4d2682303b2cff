/* Depthwise convolution of float32, any window, as many channels out as in: one text for every level of x86-64.
 *
 * The channels of a pixel lie side by side, as the weights of a tap do: 64 of them at a time, then 16, then one. Taps in the padding
 * are left out. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_portable.h"

#define DEPTHWISE_F32_X86_UNIT 16
#define DEPTHWISE_F32_X86_PARTS (DEPTHWISE_F32_X86_UNIT / GE_X86_FLOATS) /* vectors of 16 channels */
#define DEPTHWISE_F32_X86_MANY 64

/* Rows and columns of the taps of a window that exist, and where its first tap lies. */
typedef struct {
    int32_t top, bottom, left, right, y, x;
} depthwise_f32_x86_window;

static inline GE_X86_INLINE void depthwise_f32_x86_span(int32_t start, int32_t taps, int32_t dilation, int32_t count,
                                                        int32_t *first, int32_t *last) {
    *first = 0;
    *last = taps;
    while (*first < taps && start + *first * dilation < 0) {
        (*first)++;
    }
    while (*last > *first && start + (*last - 1) * dilation >= count) {
        (*last)--;
    }
}

/* 16 * units channels from c on. */
static inline GE_X86_INLINE void depthwise_f32_x86_channels(const ge_conv2d_f32_params *p, const ge_rows *x,
                                                            const float *weights, const float *bias, const float *lo,
                                                            const float *hi, const depthwise_f32_x86_window *w,
                                                            int32_t c, float *o, const int32_t units) {
    ge_x86_floats sums[DEPTHWISE_F32_X86_MANY / GE_X86_FLOATS];
    GE_X86_UNROLL
    for (int32_t v = 0; v < units * DEPTHWISE_F32_X86_PARTS; v++) {
        sums[v] = ge_x86_floats_at(bias + c + v * GE_X86_FLOATS);
    }
    for (int32_t ky = w->top; ky < w->bottom; ky++) {
        const float *const row = (const float *)ge_row(x, w->y + ky * p->dilation_h) + c;
        for (int32_t kx = w->left; kx < w->right; kx++) {
            const float *const in = row + (w->x + kx * p->dilation_w) * p->in_c;
            const float *const tap = weights + (ky * p->kernel_w + kx) * p->out_c + c;
            GE_X86_UNROLL
            for (int32_t v = 0; v < units * DEPTHWISE_F32_X86_PARTS; v++) {
                sums[v] += ge_x86_floats_at(in + v * GE_X86_FLOATS) * ge_x86_floats_at(tap + v * GE_X86_FLOATS);
            }
        }
    }
    GE_X86_UNROLL
    for (int32_t v = 0; v < units * DEPTHWISE_F32_X86_PARTS; v++) {
        ge_x86_store_floats(o + c + v * GE_X86_FLOATS,
                            ge_x86_clamped_floats(sums[v], ge_x86_floats_at(lo), ge_x86_floats_at(hi)));
    }
}

/* One channel. */
static inline GE_X86_INLINE float depthwise_f32_x86_one(const ge_conv2d_f32_params *p, const ge_rows *x,
                                                        const float *weights, float sum,
                                                        const depthwise_f32_x86_window *w, int32_t c) {
    for (int32_t ky = w->top; ky < w->bottom; ky++) {
        const float *const row = (const float *)ge_row(x, w->y + ky * p->dilation_h) + c;
        for (int32_t kx = w->left; kx < w->right; kx++) {
            sum += row[(w->x + kx * p->dilation_w) * p->in_c] * weights[(ky * p->kernel_w + kx) * p->out_c + c];
        }
    }
    return sum < p->lo ? p->lo : (sum > p->hi ? p->hi : sum);
}

static GE_X86_FN void ge_depthwise_f32_x86(const ge_conv2d_f32_params *p, const ge_rows *x, const float *weights,
                                           const float *bias, const ge_rows *out, int32_t first_row, int32_t last_row,
                                           void *scratch) {
    float lo[DEPTHWISE_F32_X86_UNIT], hi[DEPTHWISE_F32_X86_UNIT];
    (void)scratch;
    for (int32_t i = 0; i < DEPTHWISE_F32_X86_UNIT; i++) {
        lo[i] = p->lo;
        hi[i] = p->hi;
    }
    for (int32_t y = first_row; y < last_row; y++) {
        float *o = (float *)ge_row(out, y);
        depthwise_f32_x86_window w;
        w.y = y * p->stride_h - p->pad_top;
        depthwise_f32_x86_span(w.y, p->kernel_h, p->dilation_h, p->in_h, &w.top, &w.bottom);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            int32_t c = 0;
            w.x = ox * p->stride_w - p->pad_left;
            depthwise_f32_x86_span(w.x, p->kernel_w, p->dilation_w, p->in_w, &w.left, &w.right);
            for (; c + DEPTHWISE_F32_X86_MANY <= p->out_c; c += DEPTHWISE_F32_X86_MANY) {
                depthwise_f32_x86_channels(p, x, weights, bias, lo, hi, &w, c, o, 4);
            }
            for (; c + DEPTHWISE_F32_X86_UNIT <= p->out_c; c += DEPTHWISE_F32_X86_UNIT) {
                depthwise_f32_x86_channels(p, x, weights, bias, lo, hi, &w, c, o, 1);
            }
            for (; c < p->out_c; c++) {
                o[c] = depthwise_f32_x86_one(p, x, weights, bias[c], &w, c);
            }
            o += p->out_c;
        }
    }
}
