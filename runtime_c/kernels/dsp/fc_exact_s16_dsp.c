/* Fully connected layer: int16 rows with weights whose sums need 64 bits, for Cortex-M4, M7 and M33. ge_isa_dsp_exact.h
 * has the loop; two rows at a time are columns in scratch; a lone row is computed together with an old one. */
#include "ge.h"
#include "ge_isa_dsp_exact.h"
#include "ge_params.h"

/* Writes a row as one of two columns; where the number of inputs is odd, the second half of the last word is zero. */
static void fc_exact_s16_dsp_column(const int16_t *row, int32_t count, uint32_t *to) {
    for (; count >= 2; count -= 2) {
        memcpy(to, row, 4);
        row += 2;
        to += 2;
    }
    if (count > 0) {
        *to = (uint16_t)*row;
    }
}

static void ge_fc_exact_s16_dsp(const ge_fc_s16_params *p, const ge_rows *x, const uint32_t *stream, const ge_rows *out,
                                int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t steps = (p->in_c + 1) / 2;
    const ge_dsp_exact_law law = GE_DSP_EXACT_LAW(p);
    uint32_t *const columns = (uint32_t *)scratch;
    memset(columns, 0, (size_t)steps * 8);
    for (int32_t y = first_row; y < last_row; y += 2) {
        const int32_t other = y + 1 < last_row ? y + 1 : y;
        int16_t *const places[2] = {(int16_t *)ge_row(out, y), (int16_t *)ge_row(out, other)};
        fc_exact_s16_dsp_column((const int16_t *)ge_row(x, y), p->in_c, columns);
        if (other != y) {
            fc_exact_s16_dsp_column((const int16_t *)ge_row(x, other), p->in_c, columns + 1);
        }
        ge_dsp_exact_pixels(stream, columns, steps, p->out_c, &law, places);
    }
}
