/* Moves the rows that are kept to the front and appends the new ones. */
#include "ge.h"
#include "ge_params.h"

static void ge_slide_rows(const ge_slide_params *p, const ge_rows *old, const ge_rows *x, const ge_rows *out,
                          int32_t first_row, int32_t last_row, void *scratch) {
    uint8_t *const y = (uint8_t *)ge_row(out, 0);
    (void)old;
    (void)first_row;
    (void)last_row;
    (void)scratch;
    memmove(y, y + (p->bytes - p->stays), (size_t)p->stays);
    memcpy(y + p->stays, (const uint8_t *)ge_row(x, 0) + p->x_first, (size_t)(p->bytes - p->stays));
}
