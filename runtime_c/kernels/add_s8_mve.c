/* Sum (or difference) of two int8 tensors of one shape, each with its own scale: Helium.
 *
 * Four elements at a time in 32 bits: 9 instructions with the LETP, which also takes care of the rest.
 *   q2 first multiplier, q3 lowest and q4 highest output
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

static void add_s8_mve_run(const ge_add_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t count) {
    __asm__ volatile("ldr lr, [%[p], %[ma]]\n"
                     "vdup.32 q2, lr\n"
                     "ldr lr, [%[p], %[lo]]\n"
                     "vdup.32 q3, lr\n"
                     "ldr lr, [%[p], %[hi]]\n"
                     "vdup.32 q4, lr\n"
                     "wlstp.32 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.s32 q0, [%[a]], #4\n"
                     "vldrb.s32 q1, [%[b]], #4\n"
                     "vmlas.s32 q0, q2, %[offset]\n"
                     "vmla.s32 q0, q1, %[mb]\n"
                     "vshl.s32 q0, %[shift]\n"
                     "vmax.s32 q0, q0, q3\n"
                     "vmin.s32 q0, q0, q4\n"
                     "vstrb.32 q0, [%[out]], #4\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [a] "+&l"(a), [b] "+&l"(b), [out] "+&l"(out)
                     : [count] "r"(count), [mb] "r"(p->multiplier_b), [offset] "r"(p->offset), [shift] "r"(-p->shift),
                       [p] "r"(p), [ma] "i"(offsetof(ge_add_params, multiplier_a)),
                       [lo] "i"(offsetof(ge_add_params, lo)), [hi] "i"(offsetof(ge_add_params, hi))
                     : "lr", "q0", "q1", "q2", "q3", "q4", "memory");
}

static void ge_add_s8_mve(const ge_add_params *p, const ge_rows *a, const ge_rows *b, const ge_rows *out,
                          int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    if (first_row < last_row && a->slots == NULL && b->slots == NULL && out->slots == NULL) {
        add_s8_mve_run(p, (const int8_t *)ge_row(a, first_row), (const int8_t *)ge_row(b, first_row),
                       (int8_t *)ge_row(out, first_row), (last_row - first_row) * p->row);
        return;
    }
    for (int32_t y = first_row; y < last_row; y++) {
        add_s8_mve_run(p, (const int8_t *)ge_row(a, y), (const int8_t *)ge_row(b, y), (int8_t *)ge_row(out, y), p->row);
    }
}
