/* Sum (or difference) of two int8 tensors of one shape for Cortex-M4, M7 and M33.
 *
 * Four elements at a time: SXTB16 makes (a0, a2) (a1, a3), PKHBT and PKHTB make (a, b) of each element, SMLAD adds both
 * products to the offset, SSAT shifts and saturates. Cost: 6.2 cycles per element. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

#define ADD_S8_DSP_SHIFT 15 /* shift of the sum */

/* clang-format off */

#define ADD_S8_DSP_FOUR \
    "    ldr %[a], [%[x]], #4\n" \
    "    ldr %[b], [%[y]], #4\n" \
    "    sxtb16 %[s], %[a]\n" \
    "    sxtb16 %[t], %[b]\n" \
    "    sxtb16 %[a], %[a], ror #8\n" \
    "    sxtb16 %[b], %[b], ror #8\n" \
    "    pkhbt %[u], %[s], %[t], lsl #16\n" \
    "    pkhtb %[t], %[t], %[s], asr #16\n" \
    "    pkhbt %[s], %[a], %[b], lsl #16\n" \
    "    pkhtb %[b], %[b], %[a], asr #16\n" \
    "    smlad %[u], %[u], %[m], %[c]\n" \
    "    smlad %[s], %[s], %[m], %[c]\n" \
    "    smlad %[t], %[t], %[m], %[c]\n" \
    "    smlad %[b], %[b], %[m], %[c]\n" \
    "    ssat %[u], #8, %[u], asr %[shift]\n" \
    "    ssat %[s], #8, %[s], asr %[shift]\n" \
    "    ssat %[t], #8, %[t], asr %[shift]\n" \
    "    ssat %[b], #8, %[b], asr %[shift]\n" \
    "    strb.w %[s], [%[o], #1]\n" \
    "    strb.w %[t], [%[o], #2]\n" \
    "    strb.w %[b], [%[o], #3]\n" \
    "    strb %[u], [%[o]], #4\n"

/* clang-format on */

/* Computes `count` elements. */
static void add_s8_dsp_run(const ge_add_params *p, const int8_t *x, const int8_t *y, int8_t *o, int32_t count) {
    const uint32_t m = ((uint32_t)p->multiplier_a & 0xFFFFu) | (uint32_t)p->multiplier_b << 16;
    const int32_t c = p->offset;
    int32_t eights = count >> 3;
    int32_t a, b, s, t, u;
    if (eights > 0) {
        __asm__ volatile("    .balign 4\n"
                         "1:\n" ADD_S8_DSP_FOUR "    subs %[n], %[n], #1\n" ADD_S8_DSP_FOUR "    bne.w 1b\n"
                         : [x] "+&r"(x), [y] "+&r"(y), [o] "+&r"(o), [n] "+&r"(eights), [a] "=&r"(a), [b] "=&r"(b),
                           [s] "=&r"(s), [t] "=&r"(t), [u] "=&r"(u)
                         : [m] "r"(m), [c] "r"(c), [shift] "i"(ADD_S8_DSP_SHIFT)
                         : "cc", "memory");
    }
    for (int32_t i = 0; i < (count & 7); i++) {
        o[i] =
            ge_requantize_pair(x[i], y[i], p->multiplier_a, p->multiplier_b, c, ADD_S8_DSP_SHIFT, INT8_MIN, INT8_MAX);
    }
}

static void ge_add_s8_dsp(const ge_add_params *p, const ge_rows *a, const ge_rows *b, const ge_rows *out,
                          int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        add_s8_dsp_run(p, (const int8_t *)ge_row(a, y), (const int8_t *)ge_row(b, y), o, p->row);
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(o, p->row, p->lo, p->hi);
        }
    }
}
