/* Sets every element of the output to one value, in portable C. */
#include "ge.h"
#include "ge_params.h"

static void ge_fill_s8(const ge_fill_params *p, const ge_rows *out, int32_t first_row, int32_t last_row,
                       void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        memset(ge_row(out, y), p->value, (size_t)p->size);
    }
}
