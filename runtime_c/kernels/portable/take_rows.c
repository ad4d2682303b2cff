/* Asks the caller for the rows of an input; x->data is the caller's ge_source. */
#include "ge.h"
#include "ge_params.h"

static void ge_take_rows(const ge_handover_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                         int32_t last_row, void *scratch) {
    const ge_source *const source = (const ge_source *)x->data;
    (void)p;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        source->row(source->context, y, ge_row(out, y));
    }
}
