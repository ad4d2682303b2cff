/* What the loops of wide.h of a core read and write: int16 on the cores without DSP instructions. */
#ifndef GE_THUMB_WIDE_BLOCKS_H
#define GE_THUMB_WIDE_BLOCKS_H

#include <stdint.h>

/* Inputs of six pixels by channels; `weights`, `sums` and `bias` move on. */
typedef struct {
    const int32_t *x;      /* 0: words of six pixels for each input; they end at the block */
    const int8_t *weights; /* 4: behind those of the first channel, in bytes */
    int32_t pitch;         /* 8: bytes from channel to channel */
    int32_t left;          /* 12: bytes of weights of a channel, negative */
    int32_t *sums;         /* 16: six of each channel; these grow */
    int32_t channels;      /* 20: counts down to 0 */
    const int32_t *bias;   /* 24: where sums begin; NULL: they go on */
    uint32_t saved[9];     /* 28: r4-r11, lr; here, so that the compiler's figures of the stack are true */
} ge_wide_block;

/* The taps of a channel at six neighbouring outputs, strip by strip. */
typedef struct {
    const int32_t *const *strips; /* 0: for each strip: where its plane begins, where its sums go */
    const int32_t
        *taps;     /* 4: for each tap: bytes from there, twice the weight, 1 more for the last; they end at the block */
    int32_t bias;  /* 8 */
    int32_t count; /* 12: strips, counts down to 0 */
    uint32_t saved[9]; /* 16 */
} ge_wide_taps_block;

/* Sums become outputs with shift 32. Before the block lie the `outs`: where output 0 of each pixel goes. */
typedef struct {
    int16_t *const *outs;      /* 0 */
    const int32_t *sums;       /* 4: of all pixels for each channel */
    int32_t skip;              /* 8: bytes from the last of a channel to the first of the next */
    const int32_t *multiplier; /* 12 */
    int32_t offset;            /* 16: bytes of the first channel from output 0 */
    int32_t channels;          /* 20: counts down to 0 */
    int32_t zero_point;        /* 24 */
    int32_t lo, hi;            /* 28, 32 */
    uint32_t saved[9];         /* 36 */
} ge_wide_outputs;

/* An input with four rows of weights. */
typedef struct {
    const int8_t *weights; /* 0: behind the first row, in bytes */
    int32_t pitch;         /* 4: bytes from row to row; 0: all are the first */
    const int8_t *x;       /* 8: behind the inputs; GE_WIDE_FOUR_FROM of the core from there */
    int32_t left;          /* 12: bytes of weights, negative */
    int32_t sums[4];       /* 16 */
    uint32_t saved[8];     /* 32: r4-r11 */
} ge_wide_four_block;

#endif
