/* Mean of all of int8 [H, W, C], one output row and column, no padding, requantization by 2^-32: Helium.
 *
 * 16 channels at a time: up to 128 pixels are added in int16, the bottom and the top bytes apart, and then to int32. Below
 * 16 channels, or where the last block would be smaller, it begins 16 channels before the end; `when` wants at least 16.
 *
 * Measured, instructions under QEMU: 25x5x64 5,273 (0.66 per input).
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

/* Adds 16 channels of `count` pixels to the sums of channels 0 4 8 12 | 2 6 10 14 | 1 5 9 13 | 3 7 11 15. */
static void avgpool_s8_mve_sum(const int8_t *x, int32_t channels, int32_t count, int32_t *sums) {
    __asm__ volatile("vmov.i32 q0, #0\n"
                     "vmov.i32 q1, #0\n"
                     "dls lr, %[count]\n"
                     "1:\n"
                     "vldrb.8 q2, [%[x]]\n"
                     "vmovlb.s8 q3, q2\n"
                     "vmovlt.s8 q2, q2\n"
                     "vadd.i16 q0, q0, q3\n"
                     "vadd.i16 q1, q1, q2\n"
                     "add %[x], %[x], %[channels]\n"
                     "le lr, 1b\n"
                     "vldrw.u32 q2, [%[sums]]\n"
                     "vmovlb.s16 q3, q0\n"
                     "vadd.i32 q2, q2, q3\n"
                     "vstrw.32 q2, [%[sums]]\n"
                     "vldrw.u32 q2, [%[sums], #16]\n"
                     "vmovlt.s16 q3, q0\n"
                     "vadd.i32 q2, q2, q3\n"
                     "vstrw.32 q2, [%[sums], #16]\n"
                     "vldrw.u32 q2, [%[sums], #32]\n"
                     "vmovlb.s16 q3, q1\n"
                     "vadd.i32 q2, q2, q3\n"
                     "vstrw.32 q2, [%[sums], #32]\n"
                     "vldrw.u32 q2, [%[sums], #48]\n"
                     "vmovlt.s16 q3, q1\n"
                     "vadd.i32 q2, q2, q3\n"
                     "vstrw.32 q2, [%[sums], #48]\n"
                     : [x] "+&r"(x)
                     : [channels] "r"(channels), [count] "r"(count), [sums] "r"(sums)
                     : "lr", "q0", "q1", "q2", "q3", "memory");
}

/* 16 channels of all pixels. */
static void avgpool_s8_mve_block(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier,
                                 int32_t channel, int8_t *o) {
    static const uint8_t order[16] = {0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15};
    int32_t sums[16] = {0};
    const int32_t rows = x->slots == NULL ? 1 : p->in_h;
    for (int32_t y = 0; y < rows; y++) {
        const int8_t *row = (const int8_t *)ge_row(x, y) + channel;
        for (int32_t left = p->in_h / rows * p->in_w; left > 0; left -= 128) {
            avgpool_s8_mve_sum(row, p->channels, left < 128 ? left : 128, sums);
            row += 128 * p->channels;
        }
    }
    const int32_t zero = p->in_h * p->in_w * p->in_zero_point;
    for (int32_t i = 0; i < 16; i++) {
        o[i] = ge_requantize(sums[order[i]] - zero, multiplier, 0, 32, p->out_zero_point, p->lo, p->hi);
    }
}

static void ge_avgpool_s8_mve(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier,
                              const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t c = 0; c < p->channels; c += 16) {
            const int32_t first = c < p->channels - 16 ? c : p->channels - 16;
            avgpool_s8_mve_block(p, x, multiplier, first, o + first);
        }
    }
}
