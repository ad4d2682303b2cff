/* Multiplies each channel of an int8 tensor by its own multiplier and adds its own offset, with one rounding: Helium.
 *
 * Computes four channels at a time in 32 bits: 10 instructions with the LETP, whose tail predication handles the
 * remainder.
 *   q3 lowest and q4 highest output
 */
#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

/* Computes one vector of channels. */
static void affine_s8_mve_vector(const ge_affine_params *p, const int8_t *x, const int32_t *multiplier,
                                 const int32_t *offset, int8_t *out) {
    __asm__ volatile(
        "vdup.32 q3, %[lo]\n"
        "vdup.32 q4, %[hi]\n"
        "wlstp.32 lr, %[count], 2f\n"
        "1:\n"
        "vldrb.s32 q0, [%[x]], #4\n"
        "vldrw.u32 q1, [%[multiplier]], #16\n"
        "vldrw.u32 q2, [%[offset]], #16\n"
        "vmul.i32 q0, q0, q1\n"
        "vadd.i32 q0, q0, q2\n"
        "vshl.s32 q0, %[shift]\n"
        "vmax.s32 q0, q0, q3\n"
        "vmin.s32 q0, q0, q4\n"
        "vstrb.32 q0, [%[out]], #4\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+&l"(x), [out] "+&l"(out), [multiplier] "+&r"(multiplier), [offset] "+&r"(offset)
        : [count] "r"((int32_t)p->channels), [shift] "r"(-p->shift), [lo] "r"((int32_t)p->lo), [hi] "r"((int32_t)p->hi)
        : "lr", "q0", "q1", "q2", "q3", "q4", "memory");
}

static void ge_affine_s8_mve(const ge_affine_params *p, const ge_rows *x, const int32_t *multiplier,
                             const int32_t *offset, const ge_rows *out, int32_t first_row, int32_t last_row,
                             void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *v = (const int8_t *)ge_row(x, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t k = 0; k < p->vectors; k++) {
            affine_s8_mve_vector(p, v, multiplier, offset, o);
            v += p->channels;
            o += p->channels;
        }
    }
}
