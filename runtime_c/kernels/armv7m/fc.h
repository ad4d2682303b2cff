/* Products of a row of inputs with four rows of plain weights, for Cortex-M3. */
#ifndef FC_H
#define FC_H

#include <stdint.h>
#include <string.h>

typedef struct {
    const int8_t *weights; /* past the first row */
    int32_t pitch;         /* bytes from row to row; 0: all four are the same row */
    const int8_t *x;       /* past the inputs */
    int32_t left;          /* minus the number of inputs */
    int32_t sums[4];
} ge_fc_block;

static void ge_fc_four(ge_fc_block *block) {
    const int8_t *const a = block->weights;
    const int8_t *const b = a + block->pitch;
    const int8_t *const c = b + block->pitch;
    const int8_t *const d = c + block->pitch;
    int32_t sums[4] = {0, 0, 0, 0};
    for (int32_t i = block->left; i < 0; i++) {
        const int32_t x = block->x[i];
        sums[0] += x * a[i];
        sums[1] += x * b[i];
        sums[2] += x * c[i];
        sums[3] += x * d[i];
    }
    memcpy(block->sums, sums, sizeof sums);
}

#endif
