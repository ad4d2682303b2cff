/* Transposes planes [C, H, W] to pixels [H, W, C], in place and all at once, or row by row into other memory.
 *
 * The matrix planes x pixels is transposed in place in two steps. First, runs of `block` pixels of one plane move to
 * the place of these pixels in the output, cycle by cycle of that permutation; one run is held in scratch meanwhile.
 * Then the runs of all planes in one such place are transposed by way of scratch. If there are more planes than pixels,
 * as from [H, W, C] to [C, H, W], the two steps change their order. It takes 7 cycles for each element of 3x64x64 on
 * Cortex-M4. */
#include "ge_channels_last.h"

#define CHANNELS_LAST_IN_PLACE_S8_SCRATCH 256

/* Copies words where both addresses are aligned, because the memcpy of small C libraries copies bytes. */
static void channels_last_in_place_s8_copy(int8_t *to, const int8_t *from, int32_t count) {
    if ((((uintptr_t)to | (uintptr_t)from) & 3u) == 0) {
        ge_word *t = (ge_word *)(void *)to;
        const ge_word *f = (const ge_word *)(const void *)from;
        for (; count >= 16; count -= 16) {
            const uint32_t a = f[0];
            const uint32_t b = f[1];
            const uint32_t c = f[2];
            const uint32_t d = f[3];
            t[0] = a;
            t[1] = b;
            t[2] = c;
            t[3] = d;
            f += 4;
            t += 4;
        }
        to = (int8_t *)t;
        from = (const int8_t *)f;
    }
    for (; count > 0; count--) {
        *to++ = *from++;
    }
}

/* Transposes bytes [rows, columns] to [columns, rows] by way of scratch. */
static void channels_last_in_place_s8_turn(int8_t *data, int32_t rows, int32_t columns, int8_t *scratch) {
    channels_last_in_place_s8_copy(scratch, data, rows * columns);
    for (int32_t r = 0; r < rows; r++) {
        ge_channels_last_run(scratch + r * columns, 1, data + r, rows, columns);
    }
}

/* Returns which run of [rows, columns] belongs in position `at` of [columns, rows]. */
static inline int32_t channels_last_in_place_s8_source(int32_t at, int32_t rows, int32_t columns) {
    const int32_t column = at / rows;
    return (at - column * rows) * columns + column;
}

/* Transposes [rows, columns] runs of `size` bytes to [columns, rows]. Each cycle is moved once, from its lowest
 * position. */
static void channels_last_in_place_s8_permute(int8_t *data, int32_t rows, int32_t columns, int32_t size, int8_t *held) {
    int32_t left = rows * columns - 2; /* the first and the last run stay where they are */
    for (int32_t first = 1; left > 0; first++) {
        int32_t at = first;
        do {
            at = channels_last_in_place_s8_source(at, rows, columns);
        } while (at > first);
        if (at < first) {
            continue;
        }
        channels_last_in_place_s8_copy(held, data + first * size, size);
        for (;;) {
            const int32_t from = channels_last_in_place_s8_source(at, rows, columns);
            left--;
            if (from == first) {
                break;
            }
            channels_last_in_place_s8_copy(data + at * size, data + from * size, size);
            at = from;
        }
        channels_last_in_place_s8_copy(data + at * size, held, size);
    }
}

/* Returns how many pixels (planes) are moved together: the largest divisor of `many` for which `few` runs fit into
 * scratch, and a multiple of four if possible. */
static int32_t channels_last_in_place_s8_block(int32_t few, int32_t many) {
    const int32_t most = CHANNELS_LAST_IN_PLACE_S8_SCRATCH / few;
    const int32_t step = many % 4 == 0 && most >= 4 ? 4 : 1;
    int32_t block = most - most % step;
    while (many % block != 0) {
        block -= step;
    }
    return block;
}

/* Transposes bytes [planes, pixels] to [pixels, planes]. The smaller of the two numbers must be at most 256. */
static void channels_last_in_place_s8_all(int8_t *data, int32_t planes, int32_t pixels, int8_t *scratch) {
    const int32_t few = planes < pixels ? planes : pixels;
    const int32_t many = planes < pixels ? pixels : planes;
    const int32_t block = channels_last_in_place_s8_block(few, many);
    const int32_t blocks = many / block;
    if (planes < pixels) {
        channels_last_in_place_s8_permute(data, few, blocks, block, scratch);
    }
    for (int32_t i = 0; i < many * few; i += block * few) {
        channels_last_in_place_s8_turn(data + i, planes < pixels ? few : block, planes < pixels ? block : few, scratch);
    }
    if (planes >= pixels) {
        channels_last_in_place_s8_permute(data, blocks, few, block, scratch);
    }
}

static void ge_channels_last_in_place_s8(const ge_channels_last_params *p, const ge_rows *x, const ge_rows *out,
                                         int32_t first_row, int32_t last_row, void *scratch) {
    if (ge_row(x, 0) == ge_row(out, 0)) {
        channels_last_in_place_s8_all((int8_t *)ge_row(out, 0), p->channels, p->rows * p->columns, (int8_t *)scratch);
    } else {
        ge_channels_last_rows(p, x, out, first_row, last_row);
    }
}
