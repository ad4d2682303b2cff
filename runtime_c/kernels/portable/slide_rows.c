/* Moves the rows that are kept to the front and appends the new ones. */
#include "ge.h"
#include "ge_params.h"

static void ge_slide_rows(const ge_slide_params *p, const ge_rows *old, const ge_rows *x, const ge_rows *out,
                          int32_t first_row, int32_t last_row, void *scratch) {
    uint8_t *y = (uint8_t *)ge_row(out, 0);
    const size_t stays = (size_t)(p->rows - p->x_count) * (size_t)p->row_bytes;
    (void)old;
    (void)first_row;
    (void)last_row;
    (void)scratch;
    memmove(y, y + (size_t)p->x_count * (size_t)p->row_bytes, stays);
    y += stays;
    for (int32_t i = 0; i < p->x_count; i++) {
        memcpy(y, ge_row(x, p->x_first + i), (size_t)p->row_bytes);
        y += p->row_bytes;
    }
}
