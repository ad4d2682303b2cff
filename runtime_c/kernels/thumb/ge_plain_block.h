/* What the products of ge_plain.h work on. Comments of fields begin with their offset. */
#ifndef GE_PLAIN_BLOCK_H
#define GE_PLAIN_BLOCK_H

#include <stdint.h>

/* Multiplies the inputs of three pixels with the weights of channels, two at a time. `weights` and `sums` advance. */
typedef struct {
    const uint32_t *x;     /* 0: A and B of each input */
    const int8_t *weights; /* 4: past the weights of the first channel */
    int32_t pitch;         /* 8: bytes from channel to channel; 0: both channels are the same */
    int32_t left;          /* 12: minus the number of inputs */
    int32_t *sums;         /* 16: three for each channel; the products and GE_PLAIN_EXCESS are added to them */
    int32_t pairs;         /* 20: counts down to 0 */
    uint32_t saved[9];     /* 24: r4-r11, lr, kept here so that the compiler's figure for the stack is right */
} ge_plain_block;

#endif
