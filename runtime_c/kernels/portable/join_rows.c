/* Writes rows of up to three tensors one after the other. Rows that lie in place already are left there. */
#include "ge.h"
#include "ge_params.h"

static void ge_join_rows(const ge_join_params *p, const ge_rows *a, const ge_rows *b, const ge_rows *c,
                         const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t from_b = y - p->a_count, from_c = from_b - p->b_count;
        const void *const row = from_b < 0   ? ge_row(a, p->a_first + y)
                                : from_c < 0 ? ge_row(b, p->b_first + from_b)
                                             : ge_row(c, p->c_first + from_c);
        void *const place = ge_row(out, y);
        if (place != row) {
            memmove(place, row, (size_t)p->row_bytes);
        }
    }
}
