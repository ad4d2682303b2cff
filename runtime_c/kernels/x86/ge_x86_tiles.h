/* How the outputs of a convolution are divided: the tiles for a line of pixels, from those of a level (ge_x86_portable.h),
 * and the inputs of a vector of outputs where there are groups. */
#ifndef GE_X86_TILES_H
#define GE_X86_TILES_H

#include "ge_params.h"
#include "ge_x86_portable.h"

/* Returns the tile height, among those of this width, that costs least for so many pixels: a tile costs its pixels plus
 * one. */
static GE_X86_FN int32_t ge_x86_tile_rows(int32_t pixels, int32_t want) {
    int32_t best = 1, least = INT32_MAX;
#define GE_X86_TRY(rows, wide)                                                                                         \
    if (wide == want && rows <= pixels && (pixels + rows - 1) / rows * (rows + 1) < least) {                           \
        best = rows;                                                                                                   \
        least = (pixels + rows - 1) / rows * (rows + 1);                                                               \
    }
    GE_X86_TILES(GE_X86_TRY)
    return best;
}

/* Returns the widest tile for so many vectors. */
static GE_X86_FN int32_t ge_x86_tile_width(int32_t vectors) {
    int32_t best = 1;
#define GE_X86_WIDER(rows, wide) best = wide <= vectors && wide > best ? wide : best;
    GE_X86_TILES(GE_X86_WIDER)
    return best;
}

/* Returns the height of the tiles of three columns of this width, or 0 if a line has fewer pixels than that, or more
 * than one in eight would be computed twice. */
static GE_X86_FN int32_t ge_x86_column_rows(int32_t pixels, int32_t want) {
    int32_t best = 0, least = pixels + pixels / 8;
    (void)want;
    (void)least;
#define GE_X86_TRY_COLUMNS(rows, wide)                                                                                 \
    if (wide == want && rows <= pixels && (pixels + rows - 1) / rows * rows <= least) {                                \
        best = rows;                                                                                                   \
        least = (pixels + rows - 1) / rows * rows - 1;                                                                 \
    }
    GE_X86_COLUMN_TILES(GE_X86_TRY_COLUMNS)
    return best;
}

/* Returns the height of the tiles of this width that read the pixels of rows of `across` in place, or 0. If the last
 * tile overlaps the one before, it must lie in the last row: the inputs of rows before may be overwritten by then. */
static GE_X86_FN int32_t ge_x86_raw_rows(int32_t pixels, int32_t across, int32_t want) {
    int32_t best = 0, least = INT32_MAX;
    (void)pixels;
    (void)across;
    (void)want;
    (void)least;
#define GE_X86_TRY_RAW(rows, wide)                                                                                     \
    if (wide == want && rows <= pixels && (rows <= across || pixels % rows == 0) &&                                    \
        (pixels + rows - 1) / rows * (rows + 1) < least) {                                                             \
        best = rows;                                                                                                   \
        least = (pixels + rows - 1) / rows * (rows + 1);                                                               \
    }
    GE_X86_RAW_TILES(GE_X86_TRY_RAW)
    return best;
}

/* Returns the number of channels that a vector of outputs reads, which is the same for all vectors. */
static GE_X86_FN int32_t ge_x86_group_span(const ge_conv2d_params *p) {
    const int32_t group_in = p->in_c / p->groups, group_out = p->out_c / p->groups;
    int32_t most = 1;
    for (int32_t o = 0; o < p->out_c; o += 16) {
        const int32_t last = o + 15 < p->out_c ? o + 15 : p->out_c - 1;
        const int32_t count = last / group_out - o / group_out + 1;
        most = count > most ? count : most;
    }
    return most * group_in;
}

#endif
