/* The structs that the loops of each core's wide.h read and write, for int16 layers on the cores without DSP
 * instructions. Comments begin with the offset of the field, which the assembly uses. */
#ifndef GE_THUMB_WIDE_BLOCKS_H
#define GE_THUMB_WIDE_BLOCKS_H

#include <stdint.h>

/* Multiplies six pixels' inputs with the weights of several channels. `weights`, `sums` and `bias` advance. */
typedef struct {
    const int32_t *x;      /* 0: six words for each input, one per pixel; they end where this block begins */
    const int8_t *weights; /* 4: past the weights of the first channel */
    int32_t pitch;         /* 8: bytes from channel to channel */
    int32_t left;          /* 12: minus the bytes of one channel's weights */
    int32_t *sums;         /* 16: six for each channel; the products are added to them */
    int32_t channels;      /* 20: counts down to 0 */
    const int32_t *bias;   /* 24: the values that sums begin with; NULL: the sums continue */
    uint32_t saved[9];     /* 28: r4-r11, lr, kept here so that the compiler's figure for the stack is right */
} ge_wide_block;

/* The taps of one channel for six neighbouring outputs, strip by strip. */
typedef struct {
    const int32_t *const *strips; /* 0: for each strip, where its plane begins and where its sums go */
    const int32_t
        *taps;     /* 4: for each tap, its offset and twice its weight, plus 1 for the last; they end at the block */
    int32_t bias;  /* 8 */
    int32_t count; /* 12: strips; counts down to 0 */
    uint32_t saved[9]; /* 16 */
} ge_wide_taps_block;

/* Makes outputs of sums, with shift 32. The `outs`, which tell where output 0 of each pixel goes, end where this block
 * begins. */
typedef struct {
    int16_t *const *outs;      /* 0 */
    const int32_t *sums;       /* 4: for each channel, those of all pixels */
    int32_t skip;              /* 8: bytes from the last sum of a channel to the first of the next */
    const int32_t *multiplier; /* 12 */
    int32_t offset;            /* 16: bytes from output 0 to the first channel */
    int32_t channels;          /* 20: counts down to 0 */
    int32_t zero_point;        /* 24 */
    int32_t lo, hi;            /* 28, 32 */
    uint32_t saved[9];         /* 36 */
} ge_wide_outputs;

/* Multiplies a row of inputs with four rows of weights. */
typedef struct {
    const int8_t *weights; /* 0: past the first row */
    int32_t pitch;         /* 4: bytes from row to row; 0: all four are the same row */
    const int8_t *x;       /* 8: past the inputs, plus GE_WIDE_FOUR_FROM */
    int32_t left;          /* 12: minus the bytes of one row of weights */
    int32_t sums[4];       /* 16 */
    uint32_t saved[8];     /* 32: r4-r11 */
} ge_wide_four_block;

#endif
