/* Sum (or difference) of two int8 tensors of one shape for Cortex-M4, M7 and M33, multipliers of more than 16 bits.
 *
 * Two elements at a time: four loads that follow each other, then two MLA, SSAT with the shift in it and a store each.
 * Six instructions for each element, as many as in add_s8_dsp, whose SMLAD needs its operands packed in half-words. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

#define ADD_FINE_S8_DSP_SHIFT 21 /* of the sum */

/* Two elements: operands in %[a0] %[b0] and %[a1] %[b1]. */
#define ADD_FINE_S8_DSP_TWO                                                                                            \
    "    ldrsb %[a0], [%[x]], #1\n"                                                                                    \
    "    ldrsb %[b0], [%[y]], #1\n"                                                                                    \
    "    ldrsb %[a1], [%[x]], #1\n"                                                                                    \
    "    ldrsb %[b1], [%[y]], #1\n"                                                                                    \
    "    mla %[a0], %[a0], %[ma], %[c]\n"                                                                              \
    "    mla %[a1], %[a1], %[ma], %[c]\n"                                                                              \
    "    mla %[a0], %[b0], %[mb], %[a0]\n"                                                                             \
    "    mla %[a1], %[b1], %[mb], %[a1]\n"                                                                             \
    "    ssat %[a0], #8, %[a0], asr %[shift]\n"                                                                        \
    "    ssat %[a1], #8, %[a1], asr %[shift]\n"                                                                        \
    "    strb %[a0], [%[o]], #1\n"                                                                                     \
    "    strb %[a1], [%[o]], #1\n"

/* `count` elements. */
static void add_fine_s8_dsp_run(const ge_add_params *p, const int8_t *x, const int8_t *y, int8_t *o, int32_t count) {
    const int32_t ma = p->multiplier_a;
    const int32_t mb = p->multiplier_b;
    const int32_t c = p->offset;
    int32_t eights = count >> 3;
    int32_t a0, b0, a1, b1;
    if (eights > 0) {
        __asm__ volatile("    .balign 4\n"
                         "1:\n" ADD_FINE_S8_DSP_TWO ADD_FINE_S8_DSP_TWO ADD_FINE_S8_DSP_TWO
                         "    subs %[n], %[n], #1\n" ADD_FINE_S8_DSP_TWO "    bne.w 1b\n"
                         : [x] "+&r"(x), [y] "+&r"(y), [o] "+&r"(o), [n] "+&r"(eights), [a0] "=&r"(a0), [b0] "=&r"(b0),
                           [a1] "=&r"(a1), [b1] "=&r"(b1)
                         : [ma] "r"(ma), [mb] "r"(mb), [c] "r"(c), [shift] "i"(ADD_FINE_S8_DSP_SHIFT)
                         : "cc", "memory");
    }
    for (int32_t i = 0; i < (count & 7); i++) {
        o[i] = ge_requantize_pair(x[i], y[i], ma, mb, c, ADD_FINE_S8_DSP_SHIFT, INT8_MIN, INT8_MAX);
    }
}

static void ge_add_fine_s8_dsp(const ge_add_params *p, const ge_rows *a, const ge_rows *b, const ge_rows *out,
                               int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        add_fine_s8_dsp_run(p, (const int8_t *)ge_row(a, y), (const int8_t *)ge_row(b, y), o, p->row);
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(o, p->row, p->lo, p->hi);
        }
    }
}
