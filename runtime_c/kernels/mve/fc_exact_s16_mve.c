/* Fully connected layer: int16 rows with weights whose sums need 64 bits: Helium. ge_mve_exact.h has the loops, for two
 * rows at a time; a lone one is used twice. scratch: two rows, up to a multiple of eight inputs, then the sums of two
 * rows. */
#include "ge.h"
#include "ge_mve_exact.h"
#include "ge_params.h"

static void ge_fc_exact_s16_mve(const ge_fc_s16_params *p, const ge_rows *x, const int8_t *stream, const ge_rows *out,
                                int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t steps = (p->in_c + 7) / 8;
    const ge_mve_exact_law law = GE_MVE_EXACT_LAW(p);
    int16_t *const rows = (int16_t *)scratch;
    int64_t *const sums = (int64_t *)(void *)(rows + 16 * steps);
    ge_mve_fill((int8_t *)scratch, 0, 32 * steps);
    for (int32_t y = first_row; y < last_row; y += 2) {
        const int16_t *from[2];
        int16_t *places[2];
        for (int32_t i = 0; i < 2; i++) {
            const int32_t row = y + i < last_row ? y + i : y;
            from[i] = rows + i * 8 * steps;
            places[i] = (int16_t *)ge_row(out, row);
            ge_mve_copy((int8_t *)(rows + i * 8 * steps), (const int8_t *)ge_row(x, row), 2 * p->in_c);
        }
        ge_mve_exact_pixels(from, stream, steps, p->out_c, &law, sums, places);
    }
}
