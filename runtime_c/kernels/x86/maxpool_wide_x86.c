/* Largest element of each window of float32 or int16 [H, W, C]: one source for every level of x86-64. It takes one
 * vector of channels at a time over all taps; padding never counts. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_ints.h"

#define MAXPOOL_WIDE_X86_BYTES 4 /* bytes of an element: 4 of float32, 2 of int16 */

/* Computes `count` channels from c on of the window at (y, ox); `count` is a constant where it fills a vector. */
static inline GE_X86_INLINE ge_x86_ints maxpool_wide_x86_window(const ge_pool_params *p, const ge_rows *x, int32_t y,
                                                                int32_t ox, int32_t c, int32_t count) {
    ge_x86_ints largest =
        ge_x86_ints_all(MAXPOOL_WIDE_X86_BYTES == 4 ? (int32_t)ge_bits_of(-3.4028234663852886e38f) : INT16_MIN);
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = y * p->stride_h - p->pad_top + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h) {
            continue;
        }
        const uint8_t *const row = (const uint8_t *)ge_row(x, iy) + c * MAXPOOL_WIDE_X86_BYTES;
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
            if (ix >= 0 && ix < p->in_w) {
                const ge_x86_ints tap = ge_x86_some_elements_at(
                    row + (ptrdiff_t)ix * p->channels * MAXPOOL_WIDE_X86_BYTES, count, MAXPOOL_WIDE_X86_BYTES);
                largest = MAXPOOL_WIDE_X86_BYTES == 4
                              ? ge_x86_as_ints(ge_x86_larger(ge_x86_as_floats(tap), ge_x86_as_floats(largest)))
                              : ge_x86_most(tap, largest);
            }
        }
    }
    return largest;
}

static GE_X86_FN void ge_maxpool_wide_x86(const ge_pool_params *p, const ge_rows *x, const ge_rows *out,
                                          int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        uint8_t *o = (uint8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            int32_t c = 0;
            for (; c + GE_X86_FLOATS <= p->channels; c += GE_X86_FLOATS) {
                ge_x86_store_elements(o + c * MAXPOOL_WIDE_X86_BYTES,
                                      maxpool_wide_x86_window(p, x, y, ox, c, GE_X86_FLOATS), MAXPOOL_WIDE_X86_BYTES);
            }
            if (c < p->channels) {
                const int32_t count = p->channels - c;
                ge_x86_store_some_elements(o + c * MAXPOOL_WIDE_X86_BYTES,
                                           maxpool_wide_x86_window(p, x, y, ox, c, count), count,
                                           MAXPOOL_WIDE_X86_BYTES);
            }
            o += p->channels * MAXPOOL_WIDE_X86_BYTES;
        }
    }
}
