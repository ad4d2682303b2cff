/* Sum (or difference) of two int8 tensors that broadcast to one shape, with the bits of Glow, for Cortex-M4, M7 and M33.
 * All numbers fit 32 bits where nothing is shifted before it is multiplied.
 * 15 cycles for an element; the portable kernel takes 72. */
#include "ge.h"
#include "ge_broadcast.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

/* A part of the sum is (x * factor + offset) >> right; zero points and half a step are in the offset. */
typedef struct {
    int32_t factor, offset, right;
} add_each_s8_glow_dsp_part;

/* From the multiplier, the shift before it, which is 0, and the one behind. */
static add_each_s8_glow_dsp_part add_each_s8_glow_dsp_part_of(const int32_t *w, int32_t zero_point) {
    const add_each_s8_glow_dsp_part part = {w[0], ((1 << w[2]) >> 1) - zero_point * w[0], w[2]};
    return part;
}

typedef struct {
    add_each_s8_glow_dsp_part a, b;
    int32_t sign, zero_point;
} add_each_s8_glow_dsp_law;

/* No output lies over the law. */
static void add_each_s8_glow_dsp_line(const add_each_s8_glow_dsp_law *restrict law, const int8_t *a, int32_t step_a,
                                      const int8_t *b, int32_t step_b, int8_t *o, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        const int32_t part_a = (*a * law->a.factor + law->a.offset) >> law->a.right;
        const int32_t part_b = (*b * law->b.factor + law->b.offset) >> law->b.right;
        int32_t y;
        __asm__("ssat %[y], #8, %[sum]" : [y] "=r"(y) : [sum] "r"(part_a + part_b * law->sign + law->zero_point));
        o[i] = (int8_t)y;
        a += step_a;
        b += step_b;
    }
}

static void ge_add_each_s8_glow_dsp(const ge_add_each_params *p, const ge_rows *a, const ge_rows *b,
                                    const int32_t *words, const ge_rows *out, int32_t first_row, int32_t last_row,
                                    void *scratch) {
    const add_each_s8_glow_dsp_law law = {add_each_s8_glow_dsp_part_of(words, p->zero_point_a),
                                          add_each_s8_glow_dsp_part_of(words + 3, p->zero_point_b), words[6],
                                          p->out_zero_point};
    const int32_t count = p->dims[3];
    ge_lines lines = GE_LINES(p, a, b, out, first_row, last_row);
    (void)scratch;
    for (; ge_lines_more(&lines); ge_lines_step(&lines)) {
        add_each_s8_glow_dsp_line(&law, lines.a, p->strides_a[3], lines.b, p->strides_b[3], lines.out, count);
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(lines.out, count, p->lo, p->hi);
        }
    }
}
