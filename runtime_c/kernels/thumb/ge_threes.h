/* All channels of one pixel, or all outputs of a fully connected layer, nine or three at a time, for the cores without
 * DSP instructions.
 *
 * words: the number of inputs in each chunk, then 0, then the groups of channels. A group has the words of its inputs,
 * chunk by chunk, and then the requantization words of its outputs (see the core's threes.h). A chunk is as long as the
 * sums of its products allow.
 */
#ifndef GE_THREES_H
#define GE_THREES_H

#include <stdint.h>
#include <string.h>

#include "threes.h"

/* Returns how many words each input has in the last group, of `left` channels. single: whether a channel may have a
 * word of its own, which is so if there is one chunk. */
static inline int32_t ge_threes_tail(int32_t left, int32_t single) {
    if (left == 1) {
        return 1;
    }
    return left == 7 && single ? 5 : (left + 2) / 3 * 2;
}

/* Sets what all pixels of a layer have in common, except `nines`. Returns the number of chunks. */
static inline uint32_t ge_threes_begin(ge_threes_block *block, const uint32_t *words, int32_t channels, int32_t lo,
                                       int32_t hi) {
    const int32_t left = channels % 9;
    const int32_t single = words[1] == 0;
    const uint32_t *chunk = words;
    uint32_t inputs = 0;
    while (*chunk > 0) {
        inputs += *chunk++;
    }
    ge_threes_layer(block, words, lo, hi);
    block->inputs = (int32_t)inputs;
    memset(block->sums, 0, sizeof block->sums);
    block->stream = chunk + 1;
    block->tail = ge_threes_tail(left, single);
    block->before = channels - left;
    block->spared = left == block->tail + block->tail / 2 ? 0 : left;
    return (uint32_t)(chunk - words);
}

static inline void ge_threes_open(ge_threes_block *block, const uint32_t *words, int32_t channels, int32_t lo,
                                  int32_t hi) {
    const uint32_t chunks = ge_threes_begin(block, words, channels, lo, hi);
    const uint32_t nine = 6 * (uint32_t)block->inputs + 6 * GE_THREES_STARTS * chunks + 9 * GE_THREES_LAW;
    block->nines = block->stream + (uint32_t)(channels / 9) * nine;
}

static inline void ge_threes_pixel(ge_threes_block *block, const int8_t *x, int8_t *out) {
    ge_threes_inputs(block, x);
    block->out = out;
    out += block->before;
    block->tail_out = block->spared > 0 ? block->spare : out;
    ge_threes_groups(block);
    for (int32_t i = 0; i < block->spared; i++) {
        out[i] = block->spare[i];
    }
}

#endif
