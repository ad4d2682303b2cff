/* Any smooth function of one int16 number, from a table of 1025 entries in sixteenths with linear interpolation: one
 * source for every level of x86-64. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_ints.h"

/* Entries are at most 2^24, so the sums fit int32. */
static inline GE_X86_INLINE ge_x86_ints lut_s16_x86_of(const int32_t *table, ge_x86_ints x) {
    const ge_x86_ints at = x + ge_x86_ints_all(32768), part = at & 63, entry = at >> 6;
    const ge_x86_ints first = ge_x86_looked_up(table, entry), second = ge_x86_looked_up(table + 1, entry);
    const ge_x86_ints y = (first * (64 - part) + second * part + 512) >> 10;
    return ge_x86_least(ge_x86_most(y, ge_x86_ints_all(INT16_MIN)), ge_x86_ints_all(INT16_MAX));
}

static GE_X86_FN void ge_lut_s16_x86(const ge_lut_s16_params *p, const ge_rows *x, const int32_t *table,
                                     const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int16_t *const row = (const int16_t *)ge_row(x, y);
        int16_t *const o = (int16_t *)ge_row(out, y);
        int32_t i = 0;
        for (; i + GE_X86_FLOATS <= p->row; i += GE_X86_FLOATS) {
            ge_x86_store_halves(o + i, lut_s16_x86_of(table, ge_x86_halves_at(row + i)));
        }
        if (i < p->row) {
            const ge_x86_ints few = ge_x86_some_elements_at(row + i, p->row - i, 2);
            ge_x86_store_some_elements(o + i, lut_s16_x86_of(table, few), p->row - i, 2);
        }
    }
}
