/* The sum of two int8 numbers with the bits of TensorFlow Lite Micro, for add_each_s8_dsp.c.
 *
 * The operand of the larger scale is multiplied by 1/2, which is exact and needs no rounding. It is the first operand
 * here; the operands are swapped where it is the second one of the op. The other operand and the sum are rounded twice.
 * SMMLAR does the first rounding, of twice the number, and adds half a step of the second rounding, one less for a
 * negative number. This is also right for numbers that SMMLAR rounds to 0. All numbers stay below 2^30. There is no
 * include guard, because each kernel defines the names for its own law. */
#include "ge_params.h"

typedef struct {
    int32_t exact_factor, exact_offset; /* from the exact operand to twice its part of the sum */
    int32_t scale, offset;              /* from the other operand to 2^21 times itself; 2^22 where both are exact */
    int32_t multiplier, half, right;    /* the other operand's two roundings */
    int32_t sign;                       /* sign of its part of the sum, doubled */
    int32_t out_multiplier, out_half, out_right;
} ge_dsp_each_tflite;

/* (a * b + 2^31) / 2^32 + c */
static inline int32_t ge_dsp_each_tflite_high(int32_t a, int32_t b, int32_t c) {
    int32_t y;
    __asm__("smmlar %[y], %[a], %[b], %[c]" : [y] "=r"(y) : [a] "r"(a), [b] "r"(b), [c] "r"(c));
    return y;
}

static inline int32_t ge_dsp_each_tflite_sum(const ge_dsp_each_tflite *law, int32_t exact, int32_t other) {
    const int32_t wide = other * law->scale + law->offset;
    const int32_t part = ge_dsp_each_tflite_high(wide, law->multiplier, law->half) - (wide < 0);
    const int32_t sum = exact * law->exact_factor + law->exact_offset + (part >> law->right) * law->sign;
    const int32_t y = ge_dsp_each_tflite_high(sum, law->out_multiplier, law->out_half) - (sum < 0);
    return y >> law->out_right;
}

/* Derives the parameters from the words of ge_requantize_each_tflite. */
static inline ge_dsp_each_tflite ge_dsp_each_tflite_of(const ge_add_each_params *p, const int32_t *w, int32_t swapped) {
    const int32_t zero_exact = swapped ? p->zero_point_b : p->zero_point_a;
    const int32_t zero_other = swapped ? p->zero_point_a : p->zero_point_b;
    const int32_t *const v = swapped ? w : w + 2;
    const int32_t sign = swapped ? 1 : w[6];
    const int32_t exact_factor = (swapped ? w[6] : 1) * (1 << 20);
    const int32_t right = v[1] < 0 ? -v[1] : 1, scale = v[1] < 0 ? 1 << 21 : 1 << 22;
    const int32_t out_right = -w[5];
    const ge_dsp_each_tflite law = {exact_factor, -zero_exact * exact_factor,
                                    scale,        -zero_other * scale,
                                    v[0],         1 << (right - 1),
                                    right,        2 * sign,
                                    w[4],         (1 << (out_right - 1)) + p->out_zero_point * (1 << out_right),
                                    out_right};
    return law;
}

#define GE_DSP_EACH ge_dsp_each_tflite
#define GE_DSP_EACH_SWAPPED(words) ((words)[0] != 1 << 30 || (words)[1] != 0)
#define GE_DSP_EACH_OF(p, words, swapped) ge_dsp_each_tflite_of(p, words, swapped)
#define GE_DSP_EACH_SUM(law, exact, other) ge_dsp_each_tflite_sum(law, exact, other)
