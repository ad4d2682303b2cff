/* Copies a block of the input, without a requantization, to its place in an output that may already hold other blocks,
 * in portable C. `partial` is the output before this call; it lies in the same memory and is not moved. */
#include "element_s8.h"
#include "ge.h"
#include "ge_move.h"
#include "ge_params.h"

static void ge_copy_into_as_is(const ge_move_params *p, const ge_rows *partial, const ge_rows *x, const ge_rows *out,
                               int32_t first_row, int32_t last_row, void *scratch) {
    (void)partial;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        ge_move_block(p, (const uint8_t *)ge_row(x, y), (uint8_t *)ge_row(out, y), sizeof(GE_ELEMENT));
    }
}
