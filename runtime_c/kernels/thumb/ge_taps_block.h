/* What the sums of ge_taps.h work on. Comments of fields begin with their offset. */
#ifndef GE_TAPS_BLOCK_H
#define GE_TAPS_BLOCK_H

#include <stdint.h>

/* The channels of one pixel, two at a time; if their number is odd, the last one is computed twice. */
typedef struct {
    const int8_t **taps;   /* 0: for each tap, the address of channel 0 */
    const int8_t *weights; /* 4 */
    const int8_t **end;    /* 8: end of taps */
    int32_t channels;      /* 12 */
    int32_t *sums;         /* 16: room for an even number of channels */
    uint32_t saved[9];     /* 20: r4-r11, lr, kept here so that the compiler's figure for the stack is right */
} ge_taps_block;

#endif
