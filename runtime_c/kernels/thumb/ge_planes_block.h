/* What the sums and copies of ge_planes.h work on. Comments of fields begin with their offset. */
#ifndef GE_PLANES_BLOCK_H
#define GE_PLANES_BLOCK_H

#include <stdint.h>

/* Five neighbouring outputs of each channel. */
typedef struct {
    const int32_t *weights; /* 0: three for each row of the window, channel after channel */
    const int8_t *x;        /* 4: the first column of the first row in the first channel; advances */
    const int32_t *steps;   /* 8: twice the bytes from row to row; last, to the next channel's first row, plus 1 */
    const int32_t *last;    /* 12: end of law */
    const int32_t *law;     /* 16: GE_PLANES_LAW words for each channel; advances */
    int8_t *out;            /* 20: advances by a byte for each channel */
    int32_t pitch;          /* 24: bytes from output to output of a channel */
    int32_t base;           /* 28: what ge_planes_base returns */
    uint32_t saved[9];      /* 32: r4-r11, lr, kept here so that the compiler's figure for the stack is right */
} ge_planes_block;

/* A row of the input that is copied into planes. The channels must be a multiple of four and the addresses aligned to a
 * word. */
typedef struct {
    const int8_t *row;
    int8_t *to;
    int32_t channels;
    int32_t plane;
    int32_t columns;   /* 16 */
    uint32_t saved[9]; /* 20 */
} ge_planes_row;

#endif
