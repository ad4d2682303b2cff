/* Sum (or difference) of two int8 tensors that broadcast to one shape, with the bits of TensorFlow Lite Micro, for
 * Cortex-M4, M7 and M33.
 *
 * The operand of the larger scale is multiplied by 1/2, which is exact: no rounding. The other one and the sum are rounded
 * twice. SMMLAR is the first rounding, of twice the number, and adds half a step of the second; a negative number has one
 * less. That is right for any number that SMMLAR rounds to 0 too. All numbers stay below 2^30.
 * 26 cycles for an element; the portable kernel takes 189. */
#include "ge.h"
#include "ge_broadcast.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

/* Of one line: `exact` is the operand of the larger scale. */
typedef struct {
    int32_t exact_factor, exact_offset; /* exact to twice its part of the sum */
    int32_t scale, offset;              /* the other one to 2^21 times itself; 2^22 where both are exact */
    int32_t multiplier, half, right;    /* its two roundings */
    int32_t sign;                       /* of its part of the sum, twice */
    int32_t out_multiplier, out_half, out_right;
} add_each_s8_tflite_dsp_law;

/* (a * b + 2^31) / 2^32 + c */
static inline int32_t add_each_s8_tflite_dsp_high(int32_t a, int32_t b, int32_t c) {
    int32_t y;
    __asm__("smmlar %[y], %[a], %[b], %[c]" : [y] "=r"(y) : [a] "r"(a), [b] "r"(b), [c] "r"(c));
    return y;
}

static inline int8_t add_each_s8_tflite_dsp_one(const add_each_s8_tflite_dsp_law *law, int32_t exact, int32_t other) {
    const int32_t wide = other * law->scale + law->offset;
    const int32_t part = add_each_s8_tflite_dsp_high(wide, law->multiplier, law->half) - (wide < 0);
    const int32_t sum = exact * law->exact_factor + law->exact_offset + (part >> law->right) * law->sign;
    const int32_t y = add_each_s8_tflite_dsp_high(sum, law->out_multiplier, law->out_half) - (sum < 0);
    int32_t narrow;
    __asm__("ssat %[n], #8, %[y]" : [n] "=r"(narrow) : [y] "r"(y >> law->out_right));
    return (int8_t)narrow;
}

/* No output lies over the law. */
static void add_each_s8_tflite_dsp_line(const add_each_s8_tflite_dsp_law *restrict law, const int8_t *exact,
                                        int32_t exact_step, const int8_t *other, int32_t other_step, int8_t *o,
                                        int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        o[i] = add_each_s8_tflite_dsp_one(law, *exact, *other);
        exact += exact_step;
        other += other_step;
    }
}

/* The words of ge_requantize_each_tflite. */
static add_each_s8_tflite_dsp_law add_each_s8_tflite_dsp_law_of(const ge_add_each_params *p, const int32_t *w,
                                                                int32_t first_exact) {
    const int32_t zero_exact = first_exact ? p->zero_point_a : p->zero_point_b;
    const int32_t zero_other = first_exact ? p->zero_point_b : p->zero_point_a;
    const int32_t *const v = first_exact ? w + 2 : w;
    const int32_t sign = first_exact ? w[6] : 1;
    const int32_t exact_factor = (first_exact ? 1 : w[6]) * (1 << 20);
    const int32_t right = v[1] < 0 ? -v[1] : 1, scale = v[1] < 0 ? 1 << 21 : 1 << 22;
    const int32_t out_right = -w[5];
    const add_each_s8_tflite_dsp_law law = {exact_factor, -zero_exact * exact_factor,
                                            scale,        -zero_other * scale,
                                            v[0],         1 << (right - 1),
                                            right,        2 * sign,
                                            w[4],         (1 << (out_right - 1)) + p->out_zero_point * (1 << out_right),
                                            out_right};
    return law;
}

static void ge_add_each_s8_tflite_dsp(const ge_add_each_params *p, const ge_rows *a, const ge_rows *b,
                                      const int32_t *words, const ge_rows *out, int32_t first_row, int32_t last_row,
                                      void *scratch) {
    const int32_t first_exact = words[0] == 1 << 30 && words[1] == 0;
    const add_each_s8_tflite_dsp_law law = add_each_s8_tflite_dsp_law_of(p, words, first_exact);
    const int32_t step_exact = first_exact ? p->strides_a[3] : p->strides_b[3];
    const int32_t step_other = first_exact ? p->strides_b[3] : p->strides_a[3];
    ge_lines lines = GE_LINES(p, a, b, out, first_row, last_row);
    (void)scratch;
    for (; ge_lines_more(&lines); ge_lines_step(&lines)) {
        const int8_t *const exact = first_exact ? lines.a : lines.b, *const other = first_exact ? lines.b : lines.a;
        add_each_s8_tflite_dsp_line(&law, exact, step_exact, other, step_other, lines.out, p->dims[3]);
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(lines.out, p->dims[3], p->lo, p->hi);
        }
    }
}
