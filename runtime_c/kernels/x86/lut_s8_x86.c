/* Any function of one int8 number, as a table of 256 bytes: one source for every level of x86-64. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_portable.h"

static GE_X86_FN void ge_lut_s8_x86(const ge_lut_params *p, const ge_rows *x, const int8_t *table, const ge_rows *out,
                                    int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t whole = x->slots == NULL && out->slots == NULL && x->stride == p->row && out->stride == p->row;
    const int32_t rows = whole ? last_row - first_row : 1; /* elements of a line */
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y += rows) {
        ge_x86_look_up((int8_t *)ge_row(out, y), (const int8_t *)ge_row(x, y), rows * p->row, table);
    }
}
