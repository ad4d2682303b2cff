/* Largest element of each window of int8 [H, W, C]; padding never counts: Helium.
 *
 * The first tap inside the input is copied to the output, and the others are compared with it, 16 channels at a time.
 */
#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

/* Keeps the larger of `to` and `from`. */
static void maxpool_s8_mve_keep(int8_t *to, const int8_t *from, int32_t count) {
    __asm__ volatile("wlstp.8 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%[from]], #16\n"
                     "vldrb.8 q1, [%[to]]\n"
                     "vmax.s8 q0, q0, q1\n"
                     "vstrb.8 q0, [%[to]], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [to] "+&r"(to), [from] "+&r"(from)
                     : [count] "r"(count)
                     : "lr", "q0", "q1", "memory");
}

/* Computes all channels of the window at (y, ox); every window has a tap inside the input. */
static void maxpool_s8_mve_window(const ge_pool_params *p, const ge_rows *x, int32_t y, int32_t ox, int8_t *o) {
    const int32_t left = ox * p->stride_w - p->pad_left;
    int32_t iy = y * p->stride_h - p->pad_top;
    int32_t begun = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++, iy += p->dilation_h) {
        if (iy < 0 || iy >= p->in_h) {
            continue;
        }
        const int8_t *row = (const int8_t *)ge_row(x, iy);
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t ix = left + kx * p->dilation_w;
            if (ix < 0 || ix >= p->in_w) {
                continue;
            }
            if (begun) {
                maxpool_s8_mve_keep(o, row + ix * p->channels, p->channels);
            } else {
                ge_mve_copy(o, row + ix * p->channels, p->channels);
                begun = 1;
            }
        }
    }
}

static void ge_maxpool_s8_mve(const ge_pool_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                              int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            maxpool_s8_mve_window(p, x, y, ox, o);
            o += p->channels;
        }
    }
}
