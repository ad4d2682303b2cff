/* Loops that the Helium pools of int16 and float32 share: all channels of one tap at a time, with tail predication.
 *
 * A float below 2^-50 that is not 0 might be flushed (ge_mve_float.h), so the loops also return the least input. */
#ifndef GE_MVE_WIDE_POOL_H
#define GE_MVE_WIDE_POOL_H

#include "ge.h"
#include "ge_mve.h"
#include "ge_thumb_pool.h"

#define GE_MVE_WIDE_POOL_NONE 0xFFFFFFFFu

/* Returns whether the least number is below 2^-50 and not 0. */
static inline int32_t ge_mve_wide_tiny(uint32_t least) {
    return least < 0x4D000000u - 1u;
}

/* Keeps the larger of `to` and `from`. Returns `least` unchanged. */
__attribute__((unused)) static inline uint32_t ge_mve_wide_keep_s16(int16_t *to, const int16_t *from, int32_t count,
                                                                    uint32_t least) {
    __asm__ volatile("wlstp.16 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrh.u16 q0, [%[from]], #16\n"
                     "vldrh.u16 q1, [%[to]]\n"
                     "vmax.s16 q0, q0, q1\n"
                     "vstrh.16 q0, [%[to]], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [to] "+&r"(to), [from] "+&r"(from)
                     : [count] "r"(count)
                     : "lr", "q0", "q1", "memory");
    return least;
}

/* Adds `from` to the sums. */
__attribute__((unused)) static inline void ge_mve_wide_add_s16(int32_t *to, const int16_t *from, int32_t count) {
    __asm__ volatile("wlstp.32 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrh.s32 q0, [%[from]], #8\n"
                     "vldrw.u32 q1, [%[to]]\n"
                     "vadd.i32 q0, q0, q1\n"
                     "vstrw.32 q0, [%[to]], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [to] "+&r"(to), [from] "+&l"(from)
                     : [count] "r"(count)
                     : "lr", "q0", "q1", "memory");
}

/* clang-format off */
#define GE_MVE_WIDE_POOL_FLOATS(with) \
    __asm__ volatile("wlstp.32 lr, %[count], 2f\n" \
                     "1:\n" \
                     "vldrw.u32 q0, [%[from]], #16\n" \
                     "vldrw.u32 q1, [%[to]]\n" \
                     "vshl.i32 q2, q0, #1\n" \
                     with \
                     "vsub.i32 q2, q2, %[one]\n" \
                     "vstrw.32 q1, [%[to]], #16\n" \
                     "vminv.u32 %[least], q2\n" \
                     "letp lr, 1b\n" \
                     "2:\n" \
                     : [to] "+&r"(to), [from] "+&r"(from), [least] "+&r"(least) \
                     : [count] "r"(count), [one] "r"(1) \
                     : "lr", "q0", "q1", "q2", "cc", "memory")
/* clang-format on */

/* The same operations on floats. They return the smaller of `least` and the least of `from`, as twice its bits less
 * 1. */
__attribute__((unused)) static inline uint32_t ge_mve_wide_keep_f32(float *to, const float *from, int32_t count,
                                                                    uint32_t least) {
    GE_MVE_WIDE_POOL_FLOATS("vcmp.f32 gt, q0, q1\nvpsel q1, q0, q1\n");
    return least;
}

__attribute__((unused)) static inline uint32_t ge_mve_wide_add_f32(float *to, const float *from, int32_t count,
                                                                   uint32_t least) {
    GE_MVE_WIDE_POOL_FLOATS("vadd.f32 q1, q1, q0\n");
    return least;
}

#endif
