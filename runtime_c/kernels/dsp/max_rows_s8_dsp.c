/* Largest element of each channel of int8 [H, W, C], C at least 4, over rows and columns, row by row, for Cortex-M4, M7
 * and M33. Four channels at a time. */
#include "ge.h"
#include "ge_dsp_pool.h"
#include "ge_params.h"

/* Keeps the largest of four channels over `count` elements `step` bytes apart. */
static void max_rows_s8_dsp_four(const int8_t *x, int32_t step, int32_t count, int8_t *to) {
    uint32_t largest;
    memcpy(&largest, to, 4);
    for (int32_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, x, 4);
        largest = ge_dsp_larger(word, largest);
        x += step;
    }
    memcpy(to, &largest, 4);
}

/* All output rows are the same memory: row 0 starts the result, and rows come in order. */
static void ge_max_rows_s8_dsp(const ge_rows_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                               int32_t last_row, void *scratch) {
    int8_t *const largest = (int8_t *)ge_row(out, 0);
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row = (const int8_t *)ge_row(x, y);
        if (y == 0) {
            memcpy(largest, row, (size_t)p->channels);
        }
        for (int32_t c = 0; c < p->channels; c += 4) {
            const int32_t first = c < p->channels - 4 ? c : p->channels - 4; /* the last four, some of them a second
                                                                              * time */
            max_rows_s8_dsp_four(row + first, p->channels, p->columns, largest + first);
        }
    }
}
