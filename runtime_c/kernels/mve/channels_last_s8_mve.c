/* Rearranges planes [C, H, W] to pixels [H, W, C], a row of the image at a time: Helium. Eight elements at a time are
 * widened and scattered, in 4 instructions; where there are many more channels than columns, they are gathered and
 * scattered along the channels, in 5. Needs at most 9362 channels. */
#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

/* Writes `count` elements to every `step`-th byte. */
static inline void channels_last_s8_mve_run(const int8_t *from, int8_t *to, int32_t count, int32_t step) {
    __asm__ volatile("mov r4, #0\n"
                     "vidup.u16 q0, r4, #1\n"
                     "vmul.i16 q1, q0, %[step]\n"
                     "lsl r4, %[step], #3\n"
                     "wlstp.16 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.u16 q0, [%[from]], #8\n"
                     "vstrb.16 q0, [%[to], q1]\n"
                     "add %[to], %[to], r4\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [from] "+&l"(from), [to] "+&r"(to)
                     : [step] "r"(step), [count] "r"(count)
                     : "r4", "lr", "q0", "q1", "memory");
}

static void ge_channels_last_s8_mve(const ge_channels_last_params *p, const ge_rows *x, const ge_rows *out,
                                    int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t plane = p->rows * x->stride;
    const int32_t along_channels = p->channels > 4 * p->columns && x->slots == NULL && plane <= GE_MVE_MOVE_STEP;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const to = (int8_t *)ge_row(out, y);
        for (int32_t c = 0; !along_channels && c < p->channels; c++) {
            channels_last_s8_mve_run((const int8_t *)ge_row(x, c * p->rows + y), to + c, p->columns, p->channels);
        }
        for (int32_t w = 0; along_channels && w < p->columns; w++) {
            ge_mve_move((const int8_t *)ge_row(x, y) + w, plane, to + w * p->channels, 1, p->channels);
        }
    }
}
