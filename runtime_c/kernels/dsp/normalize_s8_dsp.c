/* Normalizes int8 vectors: subtracts their mean, divides by their standard deviation, scales and shifts, for Cortex-M4,
 * M7 and M33.
 *
 * With up to 256 elements the sums, the variance and the products with the reciprocal root fit 32 bits. One pass sums
 * elements and squares by SMLAD, two per instruction; the second takes MLA, SMMLAR and SSAT with a shift for each
 * element. The stream holds scale and shift of each channel in turn. docs/adding-an-op.md states the cycles. */
#include "ge.h"
#include "ge_dsp_root.h"
#include "ge_isa_dsp_sum.h"
#include "ge_params.h"

#define NORMALIZE_S8_DSP_BITS 8
#define NORMALIZE_S8_DSP_VARIANCE 30

#define NORMALIZE_S8_DSP_ADD                                                                                           \
    "    ldr %[w], [%[x]], #4\n"                                                                                       \
    "    sxtb16 %[a], %[w]\n"                                                                                          \
    "    sxtb16 %[w], %[w], ror #8\n"                                                                                  \
    "    smlad %[s1], %[a], %[ones], %[s1]\n"                                                                          \
    "    smlad %[s2], %[a], %[a], %[s2]\n"                                                                             \
    "    smlad %[s1], %[w], %[ones], %[s1]\n"                                                                          \
    "    smlad %[s2], %[w], %[w], %[s2]\n"

#define NORMALIZE_S8_DSP_ADD_TWO                                                                                       \
    "    ldr %[w], [%[x], #4]\n"                                                                                       \
    "    ldr %[v], [%[x]], #8\n"                                                                                       \
    "    sxtb16 %[a], %[w]\n"                                                                                          \
    "    sxtb16 %[w], %[w], ror #8\n"                                                                                  \
    "    smlad %[s1], %[a], %[ones], %[s1]\n"                                                                          \
    "    smlad %[s2], %[a], %[a], %[s2]\n"                                                                             \
    "    smlad %[s1], %[w], %[ones], %[s1]\n"                                                                          \
    "    smlad %[s2], %[w], %[w], %[s2]\n"                                                                             \
    "    sxtb16 %[a], %[v]\n"                                                                                          \
    "    sxtb16 %[v], %[v], ror #8\n"                                                                                  \
    "    smlad %[s1], %[a], %[ones], %[s1]\n"                                                                          \
    "    smlad %[s2], %[a], %[a], %[s2]\n"                                                                             \
    "    smlad %[s1], %[v], %[ones], %[s1]\n"                                                                          \
    "    smlad %[s2], %[v], %[v], %[s2]\n"

/* Writes the sum of n elements and the sum of their squares. */
static inline void normalize_s8_dsp_sums(const int8_t *x, int32_t n, int32_t *sum, uint32_t *squares) {
    int32_t s1 = 0, s2 = 0, w, v, a, turns = n;
    __asm__ volatile(
        "    b 2f\n"
        "    .balign 4\n"
        "1:\n" NORMALIZE_S8_DSP_ADD_TWO NORMALIZE_S8_DSP_ADD_TWO "2:\n"
        "    subs %[n], %[n], #16\n"
        "    bge 1b\n"
        "    adds %[n], %[n], #12\n"
        "    blt 4f\n"
        "3:\n" NORMALIZE_S8_DSP_ADD "    subs %[n], %[n], #4\n"
        "    bge 3b\n"
        "4:\n"
        : [x] "+&r"(x), [n] "+&r"(turns), [s1] "+&r"(s1), [s2] "+&r"(s2), [w] "=&r"(w), [v] "=&r"(v), [a] "=&r"(a)
        : [ones] "r"(0x00010001)
        : "cc", "memory");
    for (int32_t i = 0; i < (n & 3); i++) {
        s1 += x[i];
        s2 += x[i] * x[i];
    }
    *sum = s1;
    *squares = (uint32_t)s2;
}

#define NORMALIZE_S8_DSP_FOUR                                                                                          \
    "    ldr %[w], [%[x]], #4\n"                                                                                       \
    "    ldr %[ca], [%[k], #4]\n"                                                                                      \
    "    ldr %[mb], [%[k], #8]\n"                                                                                      \
    "    ldr %[cb], [%[k], #12]\n"                                                                                     \
    "    ldr %[ma], [%[k]], #32\n"                                                                                     \
    "    sxtb.w %[t], %[w]\n"                                                                                          \
    "    mla %[t], %[t], %[root], %[start]\n"                                                                          \
    "    smmlar %[ca], %[t], %[ma], %[ca]\n"                                                                           \
    "    sxtb.w %[t], %[w], ror #8\n"                                                                                  \
    "    mla %[t], %[t], %[root], %[start]\n"                                                                          \
    "    smmlar %[cb], %[t], %[mb], %[cb]\n"                                                                           \
    "    ssat %[ca], #8, %[ca], asr %[bits]\n"                                                                         \
    "    ssat %[cb], #8, %[cb], asr %[bits]\n"                                                                         \
    "    strb %[ca], [%[o]], #4\n"                                                                                     \
    "    strb %[cb], [%[o], #-3]\n"                                                                                    \
    "    ldr %[ma], [%[k], #-16]\n"                                                                                    \
    "    ldr %[ca], [%[k], #-12]\n"                                                                                    \
    "    ldr %[mb], [%[k], #-8]\n"                                                                                     \
    "    ldr %[cb], [%[k], #-4]\n"                                                                                     \
    "    sxtb.w %[t], %[w], ror #16\n"                                                                                 \
    "    mla %[t], %[t], %[root], %[start]\n"                                                                          \
    "    smmlar %[ca], %[t], %[ma], %[ca]\n"                                                                           \
    "    asr.w %[t], %[w], #24\n"                                                                                      \
    "    mla %[t], %[t], %[root], %[start]\n"                                                                          \
    "    smmlar %[cb], %[t], %[mb], %[cb]\n"                                                                           \
    "    ssat %[ca], #8, %[ca], asr %[bits]\n"                                                                         \
    "    ssat %[cb], #8, %[cb], asr %[bits]\n"                                                                         \
    "    strb %[ca], [%[o], #-2]\n"                                                                                    \
    "    strb %[cb], [%[o], #-1]\n"

#define NORMALIZE_S8_DSP_ONE                                                                                           \
    "    ldrsb %[t], [%[x]], #1\n"                                                                                     \
    "    ldr %[ca], [%[k], #4]\n"                                                                                      \
    "    ldr %[ma], [%[k]], #8\n"                                                                                      \
    "    mla %[t], %[t], %[root], %[start]\n"                                                                          \
    "    smmlar %[ca], %[t], %[ma], %[ca]\n"                                                                           \
    "    ssat %[ca], #8, %[ca], asr %[bits]\n"                                                                         \
    "    strb %[ca], [%[o]], #1\n"

static void normalize_s8_dsp_vector(const ge_normalize_params *p, const int8_t *x, const int32_t *stream,
                                    const uint16_t *roots, int8_t *o) {
    int32_t n = p->channels, sum;
    uint32_t squares;
    normalize_s8_dsp_sums(x, n, &sum, &squares);
    const ge_dsp_root_line line = ge_dsp_root_of(p, sum, squares, NORMALIZE_S8_DSP_VARIANCE, roots);
    int32_t word, t, ma, mb, ca, cb;
    __asm__ volatile(GE_DSP_SUM_LOOP(NORMALIZE_S8_DSP_FOUR, NORMALIZE_S8_DSP_ONE)
                     : [x] "+&r"(x), [k] "+&r"(stream), [o] "+&r"(o), [n] "+&r"(n), [w] "=&r"(word), [t] "=&r"(t),
                       [ma] "=&r"(ma), [mb] "=&r"(mb), [ca] "=&r"(ca), [cb] "=&r"(cb)
                     : [root] "r"(line.slope), [start] "r"(line.start), [bits] "i"(NORMALIZE_S8_DSP_BITS)
                     : "cc", "memory");
}

static void ge_normalize_s8_dsp(const ge_normalize_params *p, const ge_rows *x, const int32_t *stream,
                                const uint16_t *roots, const ge_rows *out, int32_t first_row, int32_t last_row,
                                void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *v = (const int8_t *)ge_row(x, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t k = 0; k < p->parts; k++) {
            normalize_s8_dsp_vector(p, v + k * p->channels, stream, roots, o + k * p->channels);
        }
    }
}
