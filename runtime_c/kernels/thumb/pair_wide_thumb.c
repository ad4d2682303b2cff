/* Sum, difference or product of two tensors of int16 or float32 that broadcast to one shape, for Cortex-M.
 *
 * The loops of the portable kernel, with all that does not change from element to element in registers, and the shift
 * as a number in the source. ge_thumb_pair.h has the elements. */
#include "ge.h"
#include "ge_params.h"
#include "ge_thumb_pair.h"

/* clang-format off */
#define PAIR_WIDE_THUMB_ELEMENT int16_t
#define PAIR_WIDE_THUMB_LAW ge_thumb_pair_s16 /* or ge_thumb_pair_f32 */
#define PAIR_WIDE_THUMB_LAW_OF GE_THUMB_PAIR_ADD_S16_LAW
#define PAIR_WIDE_THUMB_OF GE_THUMB_PAIR_ADD_S16 /* what is computed */
#define PAIR_WIDE_THUMB_PARAMS ge_add_s16_params
#define PAIR_WIDE_THUMB_SHIFT 32
#define PAIR_WIDE_THUMB_BOUNDS 0
/* clang-format on */

/* The innermost dim. */
static inline void pair_wide_thumb_line(const PAIR_WIDE_THUMB_LAW *law, const PAIR_WIDE_THUMB_ELEMENT *a,
                                        int32_t step_a, const PAIR_WIDE_THUMB_ELEMENT *b, int32_t step_b,
                                        PAIR_WIDE_THUMB_ELEMENT *o, int32_t count) {
    PAIR_WIDE_THUMB_ELEMENT *const end = o + count;
    if ((count & 1) != 0) {
        *o++ = PAIR_WIDE_THUMB_OF(*a, *b, law, PAIR_WIDE_THUMB_SHIFT, PAIR_WIDE_THUMB_BOUNDS);
        a += step_a;
        b += step_b;
    }
    while (o < end) {
        *o++ = PAIR_WIDE_THUMB_OF(*a, *b, law, PAIR_WIDE_THUMB_SHIFT, PAIR_WIDE_THUMB_BOUNDS);
        a += step_a;
        b += step_b;
        *o++ = PAIR_WIDE_THUMB_OF(*a, *b, law, PAIR_WIDE_THUMB_SHIFT, PAIR_WIDE_THUMB_BOUNDS);
        a += step_a;
        b += step_b;
    }
}

/* One row; the output is dense, so it is written in the order of the loops. */
static GE_NOINLINE void pair_wide_thumb_row(const PAIR_WIDE_THUMB_PARAMS *p, const PAIR_WIDE_THUMB_ELEMENT *a,
                                            const PAIR_WIDE_THUMB_ELEMENT *b, PAIR_WIDE_THUMB_ELEMENT *o) {
    const PAIR_WIDE_THUMB_LAW law = PAIR_WIDE_THUMB_LAW_OF(p, PAIR_WIDE_THUMB_SHIFT);
    const int32_t *const s = p->strides_a, *const t = p->strides_b;
    for (int32_t i = 0; i < p->dims[0]; i++) {
        for (int32_t j = 0; j < p->dims[1]; j++) {
            for (int32_t k = 0; k < p->dims[2]; k++) {
                const PAIR_WIDE_THUMB_ELEMENT *const at_a = a + i * s[0] + j * s[1] + k * s[2];
                const PAIR_WIDE_THUMB_ELEMENT *const at_b = b + i * t[0] + j * t[1] + k * t[2];
                if (s[3] == 1 && t[3] == 1) {
                    pair_wide_thumb_line(&law, at_a, 1, at_b, 1, o, p->dims[3]);
                } else {
                    pair_wide_thumb_line(&law, at_a, s[3], at_b, t[3], o, p->dims[3]);
                }
                o += p->dims[3];
            }
        }
    }
}

static void ge_pair_wide_thumb(const PAIR_WIDE_THUMB_PARAMS *p, const ge_rows *a, const ge_rows *b, const ge_rows *out,
                               int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        pair_wide_thumb_row(p, (const PAIR_WIDE_THUMB_ELEMENT *)ge_row(a, y * p->row_step_a),
                            (const PAIR_WIDE_THUMB_ELEMENT *)ge_row(b, y * p->row_step_b),
                            (PAIR_WIDE_THUMB_ELEMENT *)ge_row(out, y));
    }
}
