/* Sets every element of the output to one value, in portable C. */
#include "element_s8.h"
#include "ge.h"
#include "ge_params.h"

#define FILL_PARAMS ge_fill_s16_params

static void ge_fill(const FILL_PARAMS *p, const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        GE_ELEMENT *o = (GE_ELEMENT *)ge_row(out, y);
        for (int32_t i = 0; i < p->count; i++) {
            o[i] = (GE_ELEMENT)p->value;
        }
    }
}
