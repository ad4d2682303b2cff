/* Fully connected layer: rows of float32, int16, or int8 multiplied as int16: one source for every level of x86-64. A
 * row is a window of ge_x86_products.h; where a row has an odd length, the second half of its last pair is 0. */
#include "ge.h"
#include "ge_params.h"
#include "ge_x86_ints.h"
#include "ge_x86_products.h"

/* clang-format off */
#define FC_WIDE_X86_BYTES 4 /* bytes of an element: 4 of float32, 2 of int16, 1 of int8 */
#define FC_WIDE_X86_PARAMS ge_fc_f32_params
#define FC_WIDE_X86_UNIT float /* type of the constants */
/* clang-format on */

#define FC_WIDE_X86_HELD (FC_WIDE_X86_BYTES == 4 ? 4 : 2) /* bytes of an element as it is multiplied */

#define FC_WIDE_X86_TILE(windows, wide)                                                                                \
    static GE_X86_FN void GE_X86_SIZED(fc_wide_x86_tile, windows, wide)(const ge_x86_products *s, int32_t block) {     \
        ge_x86_products_tile(s, block, windows, wide, FC_WIDE_X86_BYTES);                                              \
    }
GE_X86_PRODUCT_TILES(FC_WIDE_X86_TILE)

/* Computes all outputs of the current windows. */
static GE_X86_FN void fc_wide_x86_outputs(const ge_x86_products *s, int32_t windows) {
    const int32_t blocks = (s->outputs + 15) / 16;
    for (int32_t block = 0; block < blocks;) {
        const int32_t left = blocks - block;
#define FC_WIDE_X86_CALL(size, wide)                                                                                   \
    if (windows == size && left >= wide) {                                                                             \
        GE_X86_SIZED(fc_wide_x86_tile, size, wide)(s, block);                                                          \
        block += wide;                                                                                                 \
        continue;                                                                                                      \
    }
        GE_X86_PRODUCT_TILES(FC_WIDE_X86_CALL)
    }
}

static GE_X86_FN void ge_fc_wide_x86(const FC_WIDE_X86_PARAMS *p, const ge_rows *x, const FC_WIDE_X86_UNIT *stream,
                                     const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t bytes = p->in_c * FC_WIDE_X86_HELD, rows = last_row - first_row;
    const int32_t begin = 0;
    ge_x86_products s;
    s.runs = &begin;
    s.run_count = 1;
    s.units = (bytes + 3) / 4;
    s.outputs = p->out_c;
    s.blocks = (const uint8_t *)stream;
    s.law = GE_X86_LAW_FOR(FC_WIDE_X86_BYTES, p);
    const int32_t windows = ge_x86_windows_of((s.outputs + 15) / 16, rows);
    for (int32_t n = 0; n < rows; n += windows) {
        s.count = rows - n < windows ? rows - n : windows;
        for (int32_t i = 0; i < windows; i++) {
            const int32_t y = first_row + (i < s.count ? n + i : n);
            s.x[i] = (const uint8_t *)ge_row(x, y);
            s.out[i] = (uint8_t *)ge_row(out, y);
            if (scratch != NULL && (FC_WIDE_X86_BYTES == 1 || bytes % 4 != 0)) {
                uint8_t *const window = (uint8_t *)scratch + (ptrdiff_t)i * (4 * s.units + 4);
                ge_x86_hold(window, ge_row(x, y), p->in_c, FC_WIDE_X86_BYTES);
                memset(window + bytes, 0, 4 - FC_WIDE_X86_HELD);
                s.x[i] = window;
            }
        }
        fc_wide_x86_outputs(&s, windows);
    }
}
