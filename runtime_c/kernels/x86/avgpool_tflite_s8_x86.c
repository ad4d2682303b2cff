/* Mean of each window of int8 [H, W, C] as TensorFlow Lite computes it, with halves rounded away from zero: one source
 * for every level of x86-64.
 *
 * The sum is moved away from zero by a quarter and multiplied by the float 1 / count. The product is never a half, and
 * rounds to the mean: sums of at most 2^13 elements are below 2^20, where the errors of the float and of the product
 * correspond to less than an eighth in the sum. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_by_law.h"

/* The taps of a window along one axis that lie inside the input: numbers first..last - 1. */
typedef struct {
    int32_t first;
    int32_t last;
} avgpool_tflite_s8_x86_taps;

static GE_X86_FN avgpool_tflite_s8_x86_taps avgpool_tflite_s8_x86_inside(int32_t start, int32_t taps, int32_t dilation,
                                                                         int32_t size) {
    avgpool_tflite_s8_x86_taps inside = {taps, 0};
    for (int32_t k = taps - 1; k >= 0; k--) {
        const int32_t i = start + k * dilation;
        if (i >= 0 && i < size) {
            inside.first = k;
            inside.last = inside.last > 0 ? inside.last : k + 1;
        }
    }
    return inside;
}

/* Sums up to 16 channels over the elements inside the input, whose rows and columns are taps of the window at (top,
 * left). */
static inline GE_X86_INLINE ge_x86_sums avgpool_tflite_s8_x86_sums(const ge_avgpool_same_params *p, const ge_rows *x,
                                                                   int32_t top, int32_t left,
                                                                   avgpool_tflite_s8_x86_taps rows,
                                                                   avgpool_tflite_s8_x86_taps columns, int32_t c,
                                                                   int32_t count) {
    ge_x86_sums even = ge_x86_zero(), odd = ge_x86_zero();
    for (int32_t ky = rows.first; ky < rows.last; ky++) {
        const int8_t *const row = (const int8_t *)ge_row(x, top + ky * p->dilation_h) + left * p->channels + c;
        for (int32_t kx = columns.first; kx < columns.last; kx++) {
            const ge_x86_sums sum = ge_x86_widened(row + kx * p->dilation_w * p->channels, count);
            const ge_x86_sums other = ge_x86_add(odd, sum);
            odd = even;
            even = other;
        }
    }
    return ge_x86_add(even, odd);
}

/* Returns the means of 16 sums, clamped or not. */
static inline GE_X86_INLINE ge_x86_sums avgpool_tflite_s8_x86_means(ge_x86_sums sums, int32_t elements,
                                                                    const float *rows, const ge_x86_law *law) {
    if (GE_X86_FLOATS == 1) {
        int32_t lanes[16] = {0};
        memcpy(lanes, &sums, sizeof lanes);
        for (int32_t i = 0; i < 16; i++) {
            const int32_t sum = lanes[i], half = elements / 2;
            lanes[i] = (sum > 0 ? sum + half : sum - half) / elements;
        }
        return ge_x86_load(lanes);
    }
    GE_X86_UNROLL
    for (int32_t i = 0; i < 16 / GE_X86_FLOATS; i++) {
        const ge_x86_register sum = ge_x86_register_of(sums, i);
        sums = ge_x86_with_register(sums, i, ge_x86_nearest(sum, rows, 16, 4, 0, 1, 0, law));
    }
    return sums;
}

static GE_X86_FN void avgpool_tflite_s8_x86_pixel(const ge_avgpool_same_params *p, const ge_rows *x,
                                                  const ge_x86_law *law, int32_t top, int32_t left, int8_t *o) {
    const avgpool_tflite_s8_x86_taps down = avgpool_tflite_s8_x86_inside(top, p->kernel_h, p->dilation_h, p->in_h);
    const avgpool_tflite_s8_x86_taps across = avgpool_tflite_s8_x86_inside(left, p->kernel_w, p->dilation_w, p->in_w);
    const int32_t inside = (down.last - down.first) * (across.last - across.first);
    const int32_t elements =
        inside > 0 ? inside : 1; /* every window has an element inside; this tells static analysers so */
    float rows[2 * 16] = {0};
    if (GE_X86_FLOATS > 1) {
        const float numbers[2] = {1.0f / (float)elements, 0.25f};
        ge_x86_spread(rows, numbers, 2);
    }
    for (int32_t c = 0; c < p->channels; c += 16) {
        const int32_t count = p->channels - c < 16 ? p->channels - c : 16;
        const ge_x86_sums sums = count == 16 ? avgpool_tflite_s8_x86_sums(p, x, top, left, down, across, c, 16)
                                             : avgpool_tflite_s8_x86_sums(p, x, top, left, down, across, c, count);
        ge_x86_store_shorts1(o + c, avgpool_tflite_s8_x86_means(sums, elements, rows, law), count, law);
    }
}

static GE_X86_FN void ge_avgpool_tflite_s8_x86(const ge_avgpool_same_params *p, const ge_rows *x, const ge_rows *out,
                                               int32_t first_row, int32_t last_row, void *scratch) {
    const ge_x86_law law = ge_x86_law_of(1, 0, p->lo, p->hi);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int32_t left = ox * p->stride_w - p->pad_left;
            avgpool_tflite_s8_x86_pixel(p, x, &law, y * p->stride_h - p->pad_top, left, o + ox * p->channels);
        }
    }
}
