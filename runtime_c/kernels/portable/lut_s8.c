/* A function of one int8 number by a table whose entry x + 128 is the output for x, in portable C. */
#include "ge.h"
#include "ge_params.h"

static void ge_lut_s8(const ge_lut_params *p, const ge_rows *x, const int8_t *table, const ge_rows *out,
                      int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row = (const int8_t *)ge_row(x, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t i = 0; i < p->row; i++) {
            o[i] = table[row[i] + 128];
        }
    }
}
