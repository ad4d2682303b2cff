/* Moves the rows that are kept to the front and appends the new ones, for Cortex-M4, M7 and M33: rows of whole words. */
#include "ge.h"
#include "ge_dsp_move_words.h"
#include "ge_params.h"

static void ge_slide_rows_dsp(const ge_slide_params *p, const ge_rows *old, const ge_rows *x, const ge_rows *out,
                              int32_t first_row, int32_t last_row, void *scratch) {
    uint8_t *y = (uint8_t *)ge_row(out, 0);
    const int32_t stays = (p->rows - p->x_count) * p->row_bytes;
    (void)old;
    (void)first_row;
    (void)last_row;
    (void)scratch;
    ge_dsp_move_words(y, y + p->x_count * p->row_bytes, stays);
    y += stays;
    for (int32_t i = 0; i < p->x_count; i++) {
        ge_dsp_move_words(y, ge_row(x, p->x_first + i), p->row_bytes);
        y += p->row_bytes;
    }
}
