/* Sum (or difference) of two int8 tensors that broadcast to one shape for Cortex-M4, M7 and M33, with multipliers of
 * any size. Cost: 4.7 to 6.9 cycles per element, and about 60 per line of the innermost dimension. */
#include "ge.h"
#include "ge_broadcast.h"
#include "ge_isa_dsp_sum.h"
#include "ge_params.h"

#define ADD_BROADCAST_S8_DSP_SHIFT 15 /* shift of the sum */

/* Computes x[i] with `multiplier` and an offset that holds everything else. */
static void add_broadcast_s8_dsp_all(const int8_t *x, int32_t multiplier, int32_t offset, int8_t *o, int32_t count) {
    GE_DSP_SUM_ALL(x, o, count, multiplier, offset, GE_DSP_SUM_NARROW, "i", ADD_BROADCAST_S8_DSP_SHIFT);
}

/* A line along which both operands change. */
static void add_broadcast_s8_dsp_each(const ge_add_broadcast_params *p, const int8_t *a, const int8_t *b, int8_t *o) {
    int32_t count = p->dims[3];
    GE_DSP_SUM_EACH(a, b, o, count, p->multiplier_a, p->multiplier_b, p->offset, ADD_BROADCAST_S8_DSP_SHIFT);
}

static void add_broadcast_s8_dsp_line(const ge_add_broadcast_params *p, const int8_t *a, const int8_t *b, int8_t *o) {
    if (p->strides_a[3] == 0) {
        add_broadcast_s8_dsp_all(b, p->multiplier_b, *a * p->multiplier_a + p->offset, o, p->dims[3]);
    } else if (p->strides_b[3] == 0) {
        add_broadcast_s8_dsp_all(a, p->multiplier_a, *b * p->multiplier_b + p->offset, o, p->dims[3]);
    } else {
        add_broadcast_s8_dsp_each(p, a, b, o);
    }
    if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
        ge_dsp_clamp(o, p->dims[3], p->lo, p->hi);
    }
}

static void ge_add_broadcast_s8_dsp(const ge_add_broadcast_params *p, const ge_rows *a, const ge_rows *b,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    ge_lines lines = GE_LINES(p, a, b, out, first_row, last_row);
    (void)scratch;
    for (; ge_lines_more(&lines); ge_lines_step(&lines)) {
        add_broadcast_s8_dsp_line(p, lines.a, lines.b, lines.out);
    }
}
