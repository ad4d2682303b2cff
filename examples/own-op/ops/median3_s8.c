/* The median of each int8 element and its two neighbours in a row. */
#include "ge.h"
#include "ge_params.h"

static int8_t median3_s8_of(int8_t a, int8_t b, int8_t c) {
    const int8_t low = a < b ? a : b;
    const int8_t high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

static void ge_median3_s8(const ge_median3_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                          int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row = (const int8_t *)ge_row(x, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t i = 0; i < p->size; i++) {
            const int8_t left = row[i > 0 ? i - 1 : 0];
            const int8_t right = row[i + 1 < p->size ? i + 1 : i];
            o[i] = median3_s8_of(left, row[i], right);
        }
    }
}
