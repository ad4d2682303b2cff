/* Multiplies each channel of an int8 tensor by its own multiplier and adds its own offset, with one rounding, for
 * Cortex-M4, M7 and M33.
 *
 * It computes two channels at a time: six consecutive loads, then for each channel MLA, SSAT with a shift, and a store.
 * The stream holds multiplier and offset of each channel in turn, for several vectors where a vector is shorter than an
 * iteration of eight elements. Cost: 6.9 cycles per element and 25 per vector; the portable kernel takes 15 per
 * element. */
#include "ge.h"
#include "ge_isa_dsp_sum.h"
#include "ge_params.h"

#define AFFINE_S8_DSP_SHIFT 15

#define AFFINE_S8_DSP_ONE                                                                                              \
    "    ldrsb %[a], [%[x]], #1\n"                                                                                     \
    "    ldr %[ca], [%[k], #4]\n"                                                                                      \
    "    ldr %[ma], [%[k]], #8\n"                                                                                      \
    "    mla %[a], %[a], %[ma], %[ca]\n" GE_DSP_SUM_NARROW("a") "    strb %[a], [%[o]], #1\n"

#define AFFINE_S8_DSP_TWO                                                                                              \
    "    ldrsb.w %[b], [%[x], #1]\n"                                                                                   \
    "    ldrsb %[a], [%[x]], #2\n"                                                                                     \
    "    ldr %[ca], [%[k], #4]\n"                                                                                      \
    "    ldr %[mb], [%[k], #8]\n"                                                                                      \
    "    ldr %[cb], [%[k], #12]\n"                                                                                     \
    "    ldr %[ma], [%[k]], #16\n"                                                                                     \
    "    mla %[b], %[b], %[mb], %[cb]\n"                                                                               \
    "    mla %[a], %[a], %[ma], %[ca]\n" GE_DSP_SUM_NARROW("a") GE_DSP_SUM_NARROW("b") "    strb.w %[b], [%[o], #1]\n" \
                                                                                       "    strb %[a], [%[o]], #2\n"

#define AFFINE_S8_DSP_FOUR AFFINE_S8_DSP_TWO AFFINE_S8_DSP_TWO

static void affine_s8_dsp_run(const int8_t *x, const int32_t *stream, int8_t *o, int32_t count) {
    int32_t a, b, ma, mb, ca, cb;
    __asm__ volatile(GE_DSP_SUM_LOOP(AFFINE_S8_DSP_FOUR, AFFINE_S8_DSP_ONE)
                     : [x] "+&r"(x), [k] "+&r"(stream), [o] "+&r"(o), [n] "+&r"(count), [a] "=&r"(a), [b] "=&r"(b),
                       [ma] "=&r"(ma), [mb] "=&r"(mb), [ca] "=&r"(ca), [cb] "=&r"(cb)
                     : [shift] "i"(AFFINE_S8_DSP_SHIFT)
                     : "cc", "memory");
}

/* Returns the number of elements for which the stream has constants: where a vector has fewer than eight channels, a
 * multiple of eight. */
static int32_t affine_s8_dsp_period(int32_t channels) {
    return channels < 8 ? channels * 8 / (channels & -channels) : channels;
}

static void ge_affine_s8_dsp(const ge_affine_params *p, const ge_rows *x, const int32_t *stream, const ge_rows *out,
                             int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t row = p->vectors * p->channels, period = affine_s8_dsp_period(p->channels);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *const v = (const int8_t *)ge_row(x, y);
        int8_t *const o = (int8_t *)ge_row(out, y);
        for (int32_t i = 0; i < row; i += period) {
            affine_s8_dsp_run(v + i, stream, o + i, row - i < period ? row - i : period);
        }
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(o, row, p->lo, p->hi);
        }
    }
}
