/* Products of windows with weights, and the outputs from their sums, for layers of int16 and of float32, and of int8 as
 * int16.
 *
 * A window consists of runs of units of four bytes, at the same distances from the first one in every window. Units are
 * numbers of float32, or pairs of int16; where a run is odd, the second half of its last pair is multiplied by a weight
 * of 0. Weights lie in blocks of 16 outputs: a row of biases, a row of multipliers where elements are int16, and a row
 * for each unit of a window. A tile is a number of windows by a number of blocks, with all sums in registers: for each
 * unit, rows of weights are loaded once, and the unit of each window is broadcast. Each sum is one chain in the order
 * of its window. */
#ifndef GE_X86_PRODUCTS_H
#define GE_X86_PRODUCTS_H

#include "ge_x86_by_law.h"
#include "ge_x86_ints.h"

/* Vectors of a row; rows before the weights where elements have so many bytes; the most windows of a tile. */
#define GE_X86_PARTS (16 / GE_X86_FLOATS)
#define GE_X86_HEADS(bytes) ((bytes) == 4 ? 1 : 2)
#define GE_X86_WINDOWS (GE_X86_FLOATS == 16 ? 8 : GE_X86_FLOATS == 8 ? 6 : GE_X86_FLOATS == 4 ? 2 : 1)

/* The tiles of windows by blocks that code exists for; for each number of windows, the widest first. */
#undef GE_X86_PRODUCT_TILES
#if GE_X86_FLOATS == 16
#define GE_X86_PRODUCT_TILES(T) T(6, 4) T(6, 2) T(6, 1) T(8, 2) T(8, 1) T(1, 8) T(1, 2) T(1, 1)
#elif GE_X86_FLOATS == 8
#define GE_X86_PRODUCT_TILES(T) T(6, 1) T(1, 4) T(1, 1)
#elif GE_X86_FLOATS == 4
#define GE_X86_PRODUCT_TILES(T) T(2, 1) T(1, 2) T(1, 1)
#else
#define GE_X86_PRODUCT_TILES(T) T(1, 1)
#endif

typedef struct {
    const uint8_t *x[8]; /* windows; entries after the last existing one repeat any other */
    uint8_t *out[8];
    int32_t count;       /* windows that exist */
    const int32_t *runs; /* byte offsets of the runs in a window */
    int32_t run_count;
    int32_t units;         /* units of a run */
    int32_t outputs;       /* outputs of a window */
    const uint8_t *blocks; /* of the first 16 outputs */
    ge_x86_wide_law law;
} ge_x86_products;

static inline GE_X86_INLINE ge_x86_ints ge_x86_step(ge_x86_ints sums, ge_x86_ints w, ge_x86_ints x,
                                                    const int32_t bytes) {
    return bytes == 4 ? ge_x86_as_ints(ge_x86_as_floats(sums) + ge_x86_as_floats(x) * ge_x86_as_floats(w))
                      : ge_x86_dot_pairs(sums, w, x);
}

/* Computes up to 16 outputs of a block, which begins with its rows of biases and multipliers. */
static inline GE_X86_INLINE void ge_x86_finish(uint8_t *to, const ge_x86_ints *sums, const uint8_t *block,
                                               int32_t outputs, const ge_x86_wide_law *law, const int32_t bytes) {
    uint8_t few[64];
    uint8_t *const o = outputs < 16 ? few : to;
    GE_X86_UNROLL
    for (int32_t v = 0; v < GE_X86_PARTS; v++) {
        const ge_x86_ints multiplier = bytes == 4 ? sums[v] : ge_x86_ints_at(block + 64 + 4 * GE_X86_FLOATS * v);
        ge_x86_store_elements(o + bytes * GE_X86_FLOATS * v, ge_x86_outputs(sums[v], multiplier, law, bytes), bytes);
    }
    if (outputs < 16) {
        /* cppcheck-suppress uninitvar -- the loop above has filled it, by intrinsics */
        memcpy(to, few, (size_t)(outputs * bytes));
    }
}

/* Computes one tile from a block on; both sizes are constants. */
static inline GE_X86_INLINE void ge_x86_products_tile(const ge_x86_products *s, int32_t block, const int32_t windows,
                                                      const int32_t wide, const int32_t bytes) {
    const int32_t apart = 64 * (s->run_count * s->units + GE_X86_HEADS(bytes));
    const uint8_t *const first = s->blocks + (ptrdiff_t)block * apart;
    const uint8_t *w = first;
    ge_x86_ints sums[24];
    GE_X86_UNROLL
    for (int32_t i = 0; i < windows * wide * GE_X86_PARTS; i++) {
        const int32_t v = i % (wide * GE_X86_PARTS);
        sums[i] = ge_x86_ints_at(w + v / GE_X86_PARTS * apart + v % GE_X86_PARTS * 4 * GE_X86_FLOATS);
    }
    w += 64 * GE_X86_HEADS(bytes);
    for (int32_t run = 0; run < s->run_count; run++) {
        const uint8_t *x[8];
        GE_X86_UNROLL
        for (int32_t i = 0; i < windows; i++) {
            x[i] = s->x[i] + s->runs[run];
        }
        for (int32_t unit = 0; unit < s->units; unit++) {
            ge_x86_ints rows[16];
            GE_X86_UNROLL
            for (int32_t v = 0; v < wide * GE_X86_PARTS; v++) {
                rows[v] = ge_x86_ints_at(w + v / GE_X86_PARTS * apart + v % GE_X86_PARTS * 4 * GE_X86_FLOATS);
            }
            GE_X86_UNROLL
            for (int32_t i = 0; i < windows; i++) {
                int32_t one;
                memcpy(&one, x[i] + 4 * (ptrdiff_t)unit, sizeof one);
                const ge_x86_ints all = ge_x86_ints_all(one);
                GE_X86_UNROLL
                for (int32_t v = 0; v < wide * GE_X86_PARTS; v++) {
                    ge_x86_ints *const sum = sums + i * wide * GE_X86_PARTS + v;
                    *sum = ge_x86_step(*sum, rows[v], all, bytes);
                }
            }
            w += 64;
        }
    }
    GE_X86_UNROLL
    for (int32_t i = 0; i < windows; i++) {
        if (i < s->count) {
            GE_X86_UNROLL
            for (int32_t v = 0; v < wide; v++) {
                const int32_t o = 16 * (block + v), left = s->outputs - o;
                ge_x86_finish(s->out[i] + o * bytes, sums + (i * wide + v) * GE_X86_PARTS, first + v * apart,
                              left < 16 ? left : 16, &s->law, bytes);
            }
        }
    }
}

/* Returns the number of windows of a tile, for so many blocks and so many windows in all. */
static inline GE_X86_INLINE int32_t ge_x86_windows_of(int32_t blocks, int32_t all) {
    const int32_t most = GE_X86_FLOATS == 16 && (blocks > 2 || all <= 6) ? 6 : GE_X86_WINDOWS;
    return all == 1 ? 1 : most;
}

#endif
