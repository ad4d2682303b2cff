/* A function of one int16 number, made of straight lines of any length, in portable C. The line is found by
 * bisection. */
#include "ge.h"
#include "ge_params.h"

/* A line exceeds the outputs of its piece by at most one step, so it fits in int32. */
static int16_t pieces_s16_one(const int16_t *start, const int32_t *base, const int32_t *slope, int32_t pieces,
                              int32_t x) {
    int32_t piece = 0;
    for (int32_t left = pieces; left > 1;) {
        const int32_t half = left / 2;
        if (start[piece + half] <= x) {
            piece += half;
        }
        left -= half;
    }
    const int32_t y = (base[piece] + slope[piece] * (x - start[piece])) >> 14;
    return (int16_t)(y < INT16_MIN ? INT16_MIN : (y > INT16_MAX ? INT16_MAX : y));
}

static void ge_pieces_s16(const ge_pieces_s16_params *p, const ge_rows *x, const int16_t *start, const int32_t *base,
                          const int32_t *slope, const ge_rows *out, int32_t first_row, int32_t last_row,
                          void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int16_t *row = (const int16_t *)ge_row(x, y);
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t i = 0; i < p->row; i++) {
            o[i] = pieces_s16_one(start, base, slope, p->pieces, row[i]);
        }
    }
}
