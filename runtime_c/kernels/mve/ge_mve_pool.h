/* Sums of channels over windows of int8 [H, W, C], and their means, for the Helium pools.
 *
 * 16 channels at a time are summed in int16 over at most 256 elements, which cannot overflow, then added in int32:
 * three instructions for 8 channels of an element. Remaining channels go in eights with predicated loads.
 */
#ifndef GE_MVE_POOL_H
#define GE_MVE_POOL_H

#include "ge.h"
#include "ge_mve.h"

#define GE_MVE_POOL_RUN 256 /* elements whose sum fits int16 */

/* Returns how many of `taps` positions, from `start` on in steps of `dilation`, lie before `end`. */
static inline int32_t ge_mve_taps_before(int32_t start, int32_t taps, int32_t dilation, int32_t end) {
    const int32_t count = end <= start ? 0 : (end - start + dilation - 1) / dilation;
    return count < taps ? count : taps;
}

/* Adds 16 channels of `count` elements, `step` bytes apart, of each of `rows` rows. */
static inline void ge_mve_add_sixteen(const int8_t *const *row, int32_t rows, int32_t offset, int32_t count,
                                      int32_t step, int32_t *sums) {
    int32_t halves[8];
    int32_t *half = halves;
    const int8_t *x;
    __asm__ volatile("vmov.i32 q2, #0\n"
                     "vmov.i32 q3, #0\n"
                     "1:\n"
                     "ldr %[x], [%[row]], #4\n"
                     "add %[x], %[x], %[offset]\n"
                     "dls lr, %[count]\n"
                     "2:\n"
                     "vldrb.s16 q0, [%[x]]\n"
                     "vldrb.s16 q1, [%[x], #8]\n"
                     "add %[x], %[x], %[step]\n"
                     "vadd.i16 q2, q2, q0\n"
                     "vadd.i16 q3, q3, q1\n"
                     "le lr, 2b\n"
                     "subs %[rows], %[rows], #1\n"
                     "bne 1b\n"
                     "vstrw.32 q2, [%[half]]\n"
                     "vstrw.32 q3, [%[half], #16]\n"
                     "mov lr, #4\n"
                     "dls lr, lr\n"
                     "3:\n"
                     "vldrh.s32 q0, [%[half]], #8\n"
                     "vldrw.u32 q1, [%[sums]]\n"
                     "vadd.i32 q1, q1, q0\n"
                     "vstrw.32 q1, [%[sums]], #16\n"
                     "le lr, 3b\n"
                     : [x] "=&l"(x), [row] "+&r"(row), [rows] "+&r"(rows), [sums] "+&r"(sums), [half] "+&l"(half)
                     : [offset] "r"(offset), [count] "r"(count), [step] "r"(step)
                     : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
}

/* Does the same for `channels` channels, or for the first 8 where there are more. */
static inline void ge_mve_add_eight(const int8_t *const *row, int32_t rows, int32_t offset, int32_t count, int32_t step,
                                    int32_t channels, int32_t *sums) {
    int16_t halves[8];
    const int8_t *x;
    __asm__ volatile(
        "vmov.i32 q2, #0\n"
        "vctp.16 %[channels]\n"
        "1:\n"
        "ldr %[x], [%[row]], #4\n"
        "add %[x], %[x], %[offset]\n"
        "dls lr, %[count]\n"
        "2:\n"
        "vpst\n"
        "vldrbt.s16 q0, [%[x]]\n"
        "add %[x], %[x], %[step]\n"
        "vadd.i16 q2, q2, q0\n"
        "le lr, 2b\n"
        "subs %[rows], %[rows], #1\n"
        "bne 1b\n"
        "vstrh.16 q2, [%[halves]]\n"
        : [x] "=&l"(x), [row] "+&r"(row), [rows] "+&r"(rows)
        : [offset] "r"(offset), [count] "r"(count), [step] "r"(step), [channels] "r"(channels), [halves] "r"(halves)
        : "lr", "q0", "q2", "cc", "memory");
    for (int32_t i = 0; i < 8 && i < channels; i++) {
        sums[i] += halves[i];
    }
}

/* Adds all channels of at least one and at most GE_MVE_POOL_RUN elements. */
static inline void ge_mve_add_run(const int8_t *const *row, int32_t rows, int32_t offset, int32_t count, int32_t step,
                                  int32_t channels, int32_t *sums) {
    int32_t c = 0;
    for (; c + 16 <= channels; c += 16) {
        ge_mve_add_sixteen(row, rows, offset + c, count, step, sums + c);
    }
    for (; c < channels; c += 8) {
        ge_mve_add_eight(row, rows, offset + c, count, step, channels - c, sums + c);
    }
}

/* Adds all channels of the elements in `row[0..rows-1]`: `count` of each from byte `offset` on, `step` bytes apart. */
static inline void ge_mve_add_rows(const int8_t *const *row, int32_t rows, int32_t offset, int32_t count, int32_t step,
                                   int32_t channels, int32_t *sums) {
    if (rows * count <= GE_MVE_POOL_RUN) {
        ge_mve_add_run(row, rows, offset, count, step, channels, sums);
        return;
    }
    for (int32_t y = 0; y < rows; y++) {
        for (int32_t i = 0; i < count; i += GE_MVE_POOL_RUN) {
            const int32_t run = count - i < GE_MVE_POOL_RUN ? count - i : GE_MVE_POOL_RUN;
            ge_mve_add_run(row + y, 1, offset + i * step, run, step, channels, sums);
        }
    }
}

/* y = clamp((((sum - zero) << left) * multiplier + 2^31) >> 32 + zero_point, lo, hi) of each channel: 9 instructions
 * for four. Requantization by 2^-shift equals requantization by 2^-32 of a sum shifted left by 32 - shift, where that
 * fits. */
typedef struct {
    int32_t zero, left, zero_point, lo, hi;
} ge_mve_mean;

static inline void ge_mve_means(const ge_mve_mean *law, int32_t multiplier, const int32_t *sums, int32_t channels,
                                int8_t *out) {
    __asm__ volatile("vdup.32 q1, %[multiplier]\n"
                     "ldr lr, [%[law], #12]\n"
                     "vdup.32 q2, lr\n"
                     "ldr lr, [%[law], #16]\n"
                     "vdup.32 q3, lr\n"
                     "wlstp.32 lr, %[channels], 2f\n"
                     "1:\n"
                     "vldrw.u32 q0, [%[sums]], #16\n"
                     "vsub.i32 q0, q0, %[zero]\n"
                     "vshl.s32 q0, %[left]\n"
                     "vrmulh.s32 q0, q0, q1\n"
                     "vadd.i32 q0, q0, %[zero_point]\n"
                     "vmax.s32 q0, q0, q2\n"
                     "vmin.s32 q0, q0, q3\n"
                     "vstrb.32 q0, [%[out]], #4\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [sums] "+&r"(sums), [out] "+&l"(out)
                     : [channels] "r"(channels), [law] "r"(law), [multiplier] "r"(multiplier), [zero] "r"(law->zero),
                       [left] "r"(law->left), [zero_point] "r"(law->zero_point)
                     : "lr", "q0", "q1", "q2", "q3", "memory");
}

#endif
