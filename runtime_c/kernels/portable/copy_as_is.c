/* Copies a block of the input, which becomes the whole output, without a requantization, in portable C. */
#include "element_s8.h"
#include "ge.h"
#include "ge_move.h"
#include "ge_params.h"

static void ge_copy_as_is(const ge_move_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                          int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        ge_move_block(p, (const uint8_t *)ge_row(x, y), (uint8_t *)ge_row(out, y), sizeof(GE_ELEMENT));
    }
}
