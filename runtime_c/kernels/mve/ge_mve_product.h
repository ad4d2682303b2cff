/* Products of int8 numbers less their zero points, requantized by 2^-32, for the Helium kernels of Mul.
 *
 * Eight elements at a time: int16 factors, VMULLB and VMULLT to int32, VRMULH, two narrowings that saturate, the zero
 * point, the limits. The last elements take one more iteration with predicated loads and stores: a loop with tail
 * predication would write only half of the last product of an odd number of elements.
 *   q0, q1 factors   q2 multiplier   q3 lowest, q6 highest output   q4, q5 products
 */
#ifndef GE_MVE_PRODUCT_H
#define GE_MVE_PRODUCT_H

#include "ge_mve.h"

/* y = clamp(((a - zero_point_a) * (b - zero_point_b) * multiplier + 2^31) >> 32 + zero_point) */
typedef struct {
    int32_t multiplier, lo, hi; /* in this order for the assembly */
    int32_t zero_point_a, zero_point_b, zero_point;
} ge_mve_product;

#define GE_MVE_PRODUCT_BEGIN                                                                                           \
    "ldr lr, [%[law]]\n"                                                                                               \
    "vdup.32 q2, lr\n"                                                                                                 \
    "ldr lr, [%[law], #4]\n"                                                                                           \
    "vdup.16 q3, lr\n"                                                                                                 \
    "ldr lr, [%[law], #8]\n"                                                                                           \
    "vdup.16 q6, lr\n"

#define GE_MVE_PRODUCT_EIGHT                                                                                           \
    "vmullb.s16 q4, q0, q1\n"                                                                                          \
    "vmullt.s16 q5, q0, q1\n"                                                                                          \
    "vrmulh.s32 q4, q4, q2\n"                                                                                          \
    "vrmulh.s32 q5, q5, q2\n"                                                                                          \
    "vqmovnb.s32 q0, q4\n"                                                                                             \
    "vqmovnt.s32 q0, q5\n"                                                                                             \
    "vqadd.s16 q0, q0, %[zero_point]\n"                                                                                \
    "vmax.s16 q0, q0, q3\n"                                                                                            \
    "vmin.s16 q0, q0, q6\n"

/* Multiplies a[i] by b[i]. */
static inline void ge_mve_product_each(const ge_mve_product *law, const int8_t *a, const int8_t *b, int8_t *out,
                                       int32_t count) {
    /* clang-format off */
    __asm__ volatile(
        GE_MVE_PRODUCT_BEGIN
        "wls lr, %[eights], 2f\n"
        "1:\n"
        "vldrb.s16 q0, [%[a]], #8\n"
        "vldrb.s16 q1, [%[b]], #8\n"
        "vsub.i16 q0, q0, %[za]\n"
        "vsub.i16 q1, q1, %[zb]\n"
        GE_MVE_PRODUCT_EIGHT
        "vstrb.16 q0, [%[out]], #8\n"
        "le lr, 1b\n"
        "2:\n"
        "vctp.16 %[rest]\n"
        "vpstt\n"
        "vldrbt.s16 q0, [%[a]]\n"
        "vldrbt.s16 q1, [%[b]]\n"
        "vsub.i16 q0, q0, %[za]\n"
        "vsub.i16 q1, q1, %[zb]\n"
        GE_MVE_PRODUCT_EIGHT
        "vpst\n"
        "vstrbt.16 q0, [%[out]]\n"
        : [a] "+&l"(a), [b] "+&l"(b), [out] "+&l"(out)
        : [law] "r"(law), [eights] "r"(count >> 3), [rest] "r"(count & 7), [za] "r"(law->zero_point_a),
          [zb] "r"(law->zero_point_b), [zero_point] "r"(law->zero_point)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "memory");
    /* clang-format on */
}

/* Multiplies a[i], whose zero point is `zero_point`, by one factor without a zero point. */
static inline void ge_mve_product_all(const ge_mve_product *law, const int8_t *a, int32_t zero_point, int32_t factor,
                                      int8_t *out, int32_t count) {
    /* clang-format off */
    __asm__ volatile(
        GE_MVE_PRODUCT_BEGIN
        "vdup.16 q1, %[factor]\n"
        "wls lr, %[eights], 2f\n"
        "1:\n"
        "vldrb.s16 q0, [%[a]], #8\n"
        "vsub.i16 q0, q0, %[za]\n"
        GE_MVE_PRODUCT_EIGHT
        "vstrb.16 q0, [%[out]], #8\n"
        "le lr, 1b\n"
        "2:\n"
        "vctp.16 %[rest]\n"
        "vpst\n"
        "vldrbt.s16 q0, [%[a]]\n"
        "vsub.i16 q0, q0, %[za]\n"
        GE_MVE_PRODUCT_EIGHT
        "vpst\n"
        "vstrbt.16 q0, [%[out]]\n"
        : [a] "+&l"(a), [out] "+&l"(out)
        : [law] "r"(law), [eights] "r"(count >> 3), [rest] "r"(count & 7), [za] "r"(zero_point),
          [factor] "r"(factor), [zero_point] "r"(law->zero_point)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "memory");
    /* clang-format on */
}

#endif
