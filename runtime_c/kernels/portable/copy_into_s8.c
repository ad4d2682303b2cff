/* Requantizes a block of the input into its place in an output that may already hold other blocks, in portable C.
 * `partial` is the output before this call; it lies in the same memory and is not moved. */
#include "ge.h"
#include "ge_copy.h"
#include "ge_params.h"

static void ge_copy_into_s8(const ge_copy_params *p, const ge_rows *partial, const ge_rows *x, const ge_rows *out,
                            int32_t first_row, int32_t last_row, void *scratch) {
    (void)partial;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        ge_copy_block(p, (const int8_t *)ge_row(x, y), (int8_t *)ge_row(out, y));
    }
}
