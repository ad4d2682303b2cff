/* Product of two int8 tensors of one shape, each with its own zero point, requantization by 2^-32: Helium.
 *
 * Four elements at a time in 32 bits: 11 instructions with the LETP, which also takes care of the rest.
 *   q2 multiplier, q3 lowest and q4 highest output
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

static void mul_s8_mve_run(const ge_mul_params *p, const int8_t *a, const int8_t *b, const int32_t *multiplier,
                           int8_t *out) {
    __asm__ volatile("ldr lr, [%[multiplier]]\n"
                     "vdup.32 q2, lr\n"
                     "ldr lr, [%[p], %[lo]]\n"
                     "vdup.32 q3, lr\n"
                     "ldr lr, [%[p], %[hi]]\n"
                     "vdup.32 q4, lr\n"
                     "ldr lr, [%[p], %[row]]\n"
                     "wlstp.32 lr, lr, 2f\n"
                     "1:\n"
                     "vldrb.s32 q0, [%[a]], #4\n"
                     "vldrb.s32 q1, [%[b]], #4\n"
                     "vsub.i32 q0, q0, %[za]\n"
                     "vsub.i32 q1, q1, %[zb]\n"
                     "vmul.i32 q0, q0, q1\n"
                     "vrmulh.s32 q0, q0, q2\n"
                     "vadd.i32 q0, q0, %[zero_point]\n"
                     "vmax.s32 q0, q0, q3\n"
                     "vmin.s32 q0, q0, q4\n"
                     "vstrb.32 q0, [%[out]], #4\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [a] "+&l"(a), [b] "+&l"(b), [out] "+&l"(out)
                     : [p] "r"(p), [multiplier] "r"(multiplier), [za] "r"(p->zero_point_a), [zb] "r"(p->zero_point_b),
                       [zero_point] "r"(p->out_zero_point), [row] "i"(offsetof(ge_mul_params, row)),
                       [lo] "i"(offsetof(ge_mul_params, lo)), [hi] "i"(offsetof(ge_mul_params, hi))
                     : "lr", "q0", "q1", "q2", "q3", "q4", "memory");
}

static void ge_mul_s8_mve(const ge_mul_params *p, const ge_rows *a, const ge_rows *b, const int32_t *multiplier,
                          const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        mul_s8_mve_run(p, (const int8_t *)ge_row(a, y), (const int8_t *)ge_row(b, y), multiplier,
                       (int8_t *)ge_row(out, y));
    }
}
