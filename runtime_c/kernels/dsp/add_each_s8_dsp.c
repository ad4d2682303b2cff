/* Sum (or difference) of two int8 tensors that broadcast to one shape, each operand rescaled and rounded on its own,
 * for Cortex-M4, M7 and M33.
 *
 * One source serves the laws of other engines: ge_dsp_each_law_<law>.h defines the output of a pair of elements, and
 * which constants it takes (kernels/shared/add_each.py checks them). Cycles per element: 15 with the bits of Glow, 26
 * with those of TensorFlow Lite Micro; the portable kernel takes 72 and 189. */
#include "ge.h"
#include "ge_broadcast.h"
#include "ge_dsp_each_law_tflite.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

/* `restrict`: no output overwrites the law. */
static void add_each_s8_dsp_line(const GE_DSP_EACH *restrict law, const int8_t *x, int32_t x_step, const int8_t *y,
                                 int32_t y_step, int8_t *o, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        int32_t narrow;
        __asm__("ssat %[n], #8, %[sum]" : [n] "=r"(narrow) : [sum] "r"(GE_DSP_EACH_SUM(law, *x, *y)));
        o[i] = (int8_t)narrow;
        x += x_step;
        y += y_step;
    }
}

static void ge_add_each_s8_dsp(const ge_add_each_params *p, const ge_rows *a, const ge_rows *b, const int32_t *words,
                               const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t swapped = GE_DSP_EACH_SWAPPED(words);
    const GE_DSP_EACH law = GE_DSP_EACH_OF(p, words, swapped);
    const int32_t count = p->dims[3];
    const int32_t x_step = swapped ? p->strides_b[3] : p->strides_a[3];
    const int32_t y_step = swapped ? p->strides_a[3] : p->strides_b[3];
    ge_lines lines = GE_LINES(p, a, b, out, first_row, last_row);
    (void)scratch;
    for (; ge_lines_more(&lines); ge_lines_step(&lines)) {
        const int8_t *const x = swapped ? lines.b : lines.a, *const y = swapped ? lines.a : lines.b;
        add_each_s8_dsp_line(&law, x, x_step, y, y_step, lines.out, count);
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(lines.out, count, p->lo, p->hi);
        }
    }
}
