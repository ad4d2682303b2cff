/* A smooth function of one int16 number, interpolated linearly between 1025 entries in sixteenths, in portable C. */
#include "ge.h"
#include "ge_params.h"

/* Entries are at most 2^24, so the sum fits in int32. */
static int16_t lut_s16_one(const int32_t *table, int32_t at) {
    const int32_t *entry = table + (at >> 6);
    const int32_t part = at & 63;
    const int32_t y = (entry[0] * (64 - part) + entry[1] * part + 512) >> 10;
    return (int16_t)(y < INT16_MIN ? INT16_MIN : (y > INT16_MAX ? INT16_MAX : y));
}

static void ge_lut_s16(const ge_lut_s16_params *p, const ge_rows *x, const int32_t *table, const ge_rows *out,
                       int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int16_t *row = (const int16_t *)ge_row(x, y);
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t i = 0; i < p->row; i++) {
            o[i] = lut_s16_one(table, row[i] + 32768);
        }
    }
}
