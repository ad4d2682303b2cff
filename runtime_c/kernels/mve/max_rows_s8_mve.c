/* Largest element of each channel of int8 [H, W, C] over rows and columns, row by row: Helium, 16 channels at a
 * time. */
#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

/* Keeps the largest of `channels` channels, or of the first 16 where there are more, over `count` elements `step` bytes
 * apart. */
static void max_rows_s8_mve_sixteen(const int8_t *x, int32_t step, int32_t count, int32_t channels, int8_t *largest) {
    __asm__ volatile("vctp.8 %[channels]\n"
                     "vpst\n"
                     "vldrbt.8 q1, [%[largest]]\n"
                     "dls lr, %[count]\n"
                     "1:\n"
                     "vpst\n"
                     "vldrbt.8 q0, [%[x]]\n"
                     "add %[x], %[x], %[step]\n"
                     "vmax.s8 q1, q1, q0\n"
                     "le lr, 1b\n"
                     "vpst\n"
                     "vstrbt.8 q1, [%[largest]]\n"
                     : [x] "+&r"(x)
                     : [step] "r"(step), [count] "r"(count), [channels] "r"(channels), [largest] "r"(largest)
                     : "lr", "q0", "q1", "memory");
}

/* All output rows are the same memory: row 0 starts the result, and rows come in order. */
static void ge_max_rows_s8_mve(const ge_rows_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                               int32_t last_row, void *scratch) {
    int8_t *largest = (int8_t *)ge_row(out, 0);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row = (const int8_t *)ge_row(x, y);
        if (y == 0) {
            ge_mve_copy(largest, row, p->channels);
        }
        for (int32_t c = 0; c < p->channels; c += 16) {
            max_rows_s8_mve_sixteen(row + c, p->channels, p->columns, p->channels - c, largest + c);
        }
    }
}
