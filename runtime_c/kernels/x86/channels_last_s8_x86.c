/* Rearranges planes [C, H, W] to pixels [H, W, C]: one source for every level of x86-64.
 *
 * Sixteen pixels of sixteen planes are a square of bytes (ge_x86_square.h). The last squares of planes overlap those
 * before; pixels are never written twice, as the output may overwrite the planes of earlier pixels. Up to four planes
 * are interleaved directly.
 */
#include "ge_channels_last.h"
#include "ge_x86_square.h"

/* Rearranges some rows of more than four planes. */
static GE_X86_FN void channels_last_s8_x86_squares(const ge_channels_last_params *p, const int8_t *x,
                                                   const ge_rows *out, int32_t first_row, int32_t last_row) {
    const ptrdiff_t plane = (ptrdiff_t)p->rows * p->columns;
    const int8_t *const end = x + p->channels * plane;
    const int32_t planes = p->channels < 16 ? p->channels : 16;
    if (planes <= 4) {
        return; /* never reached; keeps gcc, which clones this function for a layer's params, from warning */
    }
    int32_t y = first_row, column = 0, left = (last_row - first_row) * p->columns;
    const int8_t *from = x + (ptrdiff_t)first_row * p->columns;
    for (; left > 0; left -= 16) {
        const int32_t count = left < 16 ? left : 16;
        int8_t *to[16];
        for (int32_t i = 0; i < count; i++) {
            to[i] = column > 0 && i > 0 ? to[i - 1] + p->channels : (int8_t *)ge_row(out, y) + column * p->channels;
            column++;
            y += column == p->columns;
            column = column == p->columns ? 0 : column;
        }
        for (int32_t c = 0; c < p->channels; c += 16) {
            const int32_t begin = c + planes > p->channels ? p->channels - planes : c;
            ge_x86_square_pixels(from + begin * plane, end, plane, planes, to, count, begin);
        }
        from += 16;
    }
}

/* Rearranges some rows of up to four planes. */
static GE_X86_FN void channels_last_s8_x86_few(const ge_channels_last_params *p, const int8_t *x, const ge_rows *out,
                                               int32_t first_row, int32_t last_row) {
    const int32_t together = out->slots == NULL ? last_row - first_row : 1;
    for (int32_t y = first_row; y < last_row; y += together) {
        ge_x86_square_few(x + (ptrdiff_t)y * p->columns, (ptrdiff_t)p->rows * p->columns, p->channels,
                          (int8_t *)ge_row(out, y), together * p->columns);
    }
}

static GE_X86_FN void ge_channels_last_s8_x86(const ge_channels_last_params *p, const ge_rows *x, const ge_rows *out,
                                              int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    if (!GE_X86_SQUARES || x->slots != NULL) {
        ge_channels_last_rows(p, x, out, first_row, last_row);
    } else if (p->channels > 4) {
        channels_last_s8_x86_squares(p, (const int8_t *)x->data, out, first_row, last_row);
    } else {
        channels_last_s8_x86_few(p, (const int8_t *)x->data, out, first_row, last_row);
    }
}
