/* Softmax of int8 vectors to int8: Helium.
 *
 * The exponentials are gathered from the table, four at a time. With N below 2^32, VMULH of N and the reciprocal, 2^32
 * / sum rounded down, is the quotient N / sum or one less, since N * (2^32 / sum - reciprocal) / 2^32 < 1. The
 * remainder decides which.
 *   q3 steps   q4 reciprocal   q5 largest input   q6 most steps
 *
 * Measured, instructions under QEMU: 125 for 12 elements, 5,004 for 1,000.
 */
#include "ge.h"
#include "ge_mve_exp.h"
#include "ge_params.h"

/* Returns the sum of exponentials, at most 2^31. */
static uint32_t softmax_s8_mve_sum(const int8_t *x, int32_t n, int32_t max, const uint32_t *table) {
    uint32_t sum;
    __asm__ volatile("vdup.32 q5, %[max]\n"
                     "mov r4, #0\n"
                     "wlstp.32 lr, %[n], 2f\n"
                     "1:\n" GE_MVE_EXP "vaddva.u32 r4, q1\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     "mov %[sum], r4\n"
                     : [x] "+&l"(x), [sum] "=r"(sum)
                     : [n] "r"(n), [max] "r"(max), [table] "r"(table)
                     : "r4", "lr", "q0", "q1", "q5", "memory");
    return sum;
}

/* Computes one vector. */
static void softmax_s8_mve_vector(const ge_softmax_params *p, const int8_t *x, const uint32_t *table, int8_t *out) {
    const int32_t max = ge_mve_max(x, p->n);
    const uint64_t scaled = (uint64_t)softmax_s8_mve_sum(x, p->n, max, table) * (uint32_t)p->sum_scale;
    const uint32_t sum = (uint32_t)((scaled + (1u << 29)) >> 30);
    const uint32_t law[4] = {(uint32_t)p->steps, 0xFFFFFFFFu / sum, (uint32_t)max, (uint32_t)(127 - p->zero_point)};
    __asm__ volatile("ldr lr, [%[law]]\n"
                     "vdup.32 q3, lr\n"
                     "ldr lr, [%[law], #4]\n"
                     "vdup.32 q4, lr\n"
                     "ldr lr, [%[law], #8]\n"
                     "vdup.32 q5, lr\n"
                     "ldr lr, [%[law], #12]\n"
                     "vdup.32 q6, lr\n"
                     "wlstp.32 lr, %[n], 2f\n"
                     "1:\n" GE_MVE_EXP "vmlas.u32 q1, q3, %[half]\n"
                     "vmulh.u32 q2, q1, q4\n"
                     "vmul.i32 q0, q2, %[sum]\n"
                     "vsub.i32 q1, q1, q0\n"
                     "vcmp.u32 cs, q1, %[sum]\n"
                     "vpst\n"
                     "vaddt.i32 q2, q2, %[one]\n"
                     "vmin.u32 q2, q2, q6\n"
                     "vadd.i32 q2, q2, %[zero_point]\n"
                     "vstrb.32 q2, [%[out]], #4\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [x] "+&l"(x), [out] "+&l"(out)
                     : [n] "r"((int32_t)p->n), [table] "r"(table), [law] "r"(law), [sum] "r"(sum), [half] "r"(sum / 2u),
                       [one] "r"(1), [zero_point] "r"((int32_t)p->zero_point)
                     : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "memory");
}

static void ge_softmax_s8_mve(const ge_softmax_params *p, const ge_rows *x, const uint32_t *table, const ge_rows *out,
                              int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *v = (const int8_t *)ge_row(x, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t k = 0; k < p->vectors; k++) {
            softmax_s8_mve_vector(p, v, table, o);
            v += p->n;
            o += p->n;
        }
    }
}
