/* The sum of two int8 numbers with the bits of Glow, for add_each_s8_dsp.c: its intermediate results fit 32 bits where
 * nothing is shifted before the multiplication. There is no include guard, because each kernel defines the names for
 * its own law. */
#include "ge_params.h"

/* One part of the sum is (x * factor + offset) >> right; the offset contains the zero point and half a step. */
typedef struct {
    int32_t factor, offset, right;
} ge_dsp_each_glow_part;

typedef struct {
    ge_dsp_each_glow_part a, b;
    int32_t sign, zero_point; /* sign of b; zero point of the output */
} ge_dsp_each_glow;

/* Returns the part that the three words of ge_scale_glow describe: the multiplier, the shift before it, which is 0, and
 * the shift after it. */
static inline ge_dsp_each_glow_part ge_dsp_each_glow_part_of(const int32_t *w, int32_t zero_point) {
    const ge_dsp_each_glow_part part = {w[0], ((1 << w[2]) >> 1) - zero_point * w[0], w[2]};
    return part;
}

static inline ge_dsp_each_glow ge_dsp_each_glow_of(const ge_add_each_params *p, const int32_t *w) {
    const ge_dsp_each_glow law = {ge_dsp_each_glow_part_of(w, p->zero_point_a),
                                  ge_dsp_each_glow_part_of(w + 3, p->zero_point_b), w[6], p->out_zero_point};
    return law;
}

static inline int32_t ge_dsp_each_glow_sum(const ge_dsp_each_glow *law, int32_t a, int32_t b) {
    const int32_t part_a = (a * law->a.factor + law->a.offset) >> law->a.right;
    const int32_t part_b = (b * law->b.factor + law->b.offset) >> law->b.right;
    return part_a + part_b * law->sign + law->zero_point;
}

#define GE_DSP_EACH ge_dsp_each_glow
#define GE_DSP_EACH_SWAPPED(words) 0
#define GE_DSP_EACH_OF(p, words, swapped) ge_dsp_each_glow_of(p, words)
#define GE_DSP_EACH_SUM(law, a, b) ge_dsp_each_glow_sum(law, a, b)
