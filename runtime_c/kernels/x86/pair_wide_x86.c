/* Sum, difference or product of two tensors of float32 or int16 that broadcast to one shape: one source for every level
 * of x86-64. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_ints.h"
#include "ge_x86_ints_pair.h"

/* clang-format off */
#define PAIR_WIDE_X86_BYTES 4 /* bytes of an element: 4 of float32, 2 of int16 */
#define PAIR_WIDE_X86_OF GE_X86_PAIR_ADD_F32 /* the operation, one of ge_x86_ints_pair.h */
#define PAIR_WIDE_X86_PARAMS ge_add_f32_params
/* clang-format on */

/* One operand of a line: contiguous elements, or one element in all places. */
typedef struct {
    const uint8_t *at;
    int32_t step; /* 1 or 0 */
    ge_x86_ints same;
} pair_wide_x86_operand;

static inline GE_X86_INLINE pair_wide_x86_operand pair_wide_x86_operand_of(const uint8_t *line, int32_t stride) {
    pair_wide_x86_operand operand;
    operand.at = line;
    operand.step = stride;
    operand.same = ge_x86_element_for_all(line, PAIR_WIDE_X86_BYTES);
    return operand;
}

/* Loads a vector from element i on, of which `count` elements exist; `count` is a constant where all do. */
static inline GE_X86_INLINE ge_x86_ints pair_wide_x86_at(const pair_wide_x86_operand *operand, int32_t i,
                                                         int32_t count) {
    return operand->step == 0
               ? operand->same
               : ge_x86_some_elements_at(operand->at + (ptrdiff_t)i * PAIR_WIDE_X86_BYTES, count, PAIR_WIDE_X86_BYTES);
}

/* One line along the innermost dimension. */
static inline GE_X86_INLINE void pair_wide_x86_line(const PAIR_WIDE_X86_PARAMS *p, const ge_x86_wide_law *law,
                                                    const uint8_t *a, const uint8_t *b, uint8_t *o) {
    const pair_wide_x86_operand left = pair_wide_x86_operand_of(a, p->strides_a[3]);
    const pair_wide_x86_operand right = pair_wide_x86_operand_of(b, p->strides_b[3]);
    int32_t i = 0;
    for (; i + GE_X86_FLOATS <= p->dims[3]; i += GE_X86_FLOATS) {
        const ge_x86_ints x = pair_wide_x86_at(&left, i, GE_X86_FLOATS);
        const ge_x86_ints y = PAIR_WIDE_X86_OF(p, law, x, pair_wide_x86_at(&right, i, GE_X86_FLOATS));
        ge_x86_store_elements(o + (ptrdiff_t)i * PAIR_WIDE_X86_BYTES, y, PAIR_WIDE_X86_BYTES);
    }
    if (i < p->dims[3]) {
        const int32_t count = p->dims[3] - i;
        const ge_x86_ints x = pair_wide_x86_at(&left, i, count);
        const ge_x86_ints y = PAIR_WIDE_X86_OF(p, law, x, pair_wide_x86_at(&right, i, count));
        ge_x86_store_some_elements(o + (ptrdiff_t)i * PAIR_WIDE_X86_BYTES, y, count, PAIR_WIDE_X86_BYTES);
    }
}

/* One row; the output is dense, so it is written in the order of the loops. */
static GE_X86_FN void pair_wide_x86_row(const PAIR_WIDE_X86_PARAMS *p, const ge_x86_wide_law *law, const uint8_t *a,
                                        const uint8_t *b, uint8_t *o) {
    const int32_t *const s = p->strides_a, *const t = p->strides_b;
    for (int32_t i = 0; i < p->dims[0]; i++) {
        for (int32_t j = 0; j < p->dims[1]; j++) {
            for (int32_t k = 0; k < p->dims[2]; k++) {
                const ptrdiff_t at_a = (ptrdiff_t)(i * s[0] + j * s[1] + k * s[2]) * PAIR_WIDE_X86_BYTES;
                const ptrdiff_t at_b = (ptrdiff_t)(i * t[0] + j * t[1] + k * t[2]) * PAIR_WIDE_X86_BYTES;
                pair_wide_x86_line(p, law, a + at_a, b + at_b, o);
                o += (ptrdiff_t)p->dims[3] * PAIR_WIDE_X86_BYTES;
            }
        }
    }
}

static GE_X86_FN void ge_pair_wide_x86(const PAIR_WIDE_X86_PARAMS *p, const ge_rows *a, const ge_rows *b,
                                       const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const ge_x86_wide_law law = GE_X86_LAW_FOR(PAIR_WIDE_X86_BYTES, p);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        pair_wide_x86_row(p, &law, (const uint8_t *)ge_row(a, y * p->row_step_a),
                          (const uint8_t *)ge_row(b, y * p->row_step_b), (uint8_t *)ge_row(out, y));
    }
}
