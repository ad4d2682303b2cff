/* All channels of one pixel, or all outputs of a fully connected layer, in nines and threes: for the cores without DSP.
 *
 * words: [n][inputs of chunk 0] ... [inputs of chunk n-1], then for each nine (or three) channels and each chunk what
 * ge_threes_nine (ge_threes_three) reads. A chunk is as long as the sums of its products allow. law: GE_THREES_LAW words
 * for each channel, and for those that fill up the last nine or three. Included after the header of a core, ge_isa_<isa>.h.
 */
#ifndef GE_THREES_H
#define GE_THREES_H

#include <stdint.h>

static inline void ge_threes_run(const uint32_t *words, const int32_t *law, const ge_threes_range *range,
                                 const int8_t *x, int32_t channels, int8_t *out) {
    const uint32_t chunks = words[0];
    ge_threes_block block;
    block.stream = words + 1 + chunks;
    for (int32_t left = channels; left > 0;) {
        const int32_t nine = left > 6;
        const int32_t size = nine ? 9 : 3;
        int32_t sums[9];
        ge_threes_begin(law, size, sums);
        block.x = x;
        for (uint32_t k = 1; k <= chunks; k++) {
            block.sums = sums;
            block.end = block.x + words[k];
            if (nine) {
                ge_threes_nine(&block);
            } else {
                ge_threes_three(&block);
            }
        }
        const int32_t count = left < size ? left : size;
        ge_threes_finish(range, law, size, sums, count, out);
        law += GE_THREES_LAW * size;
        out += count;
        left -= count;
    }
}

#endif
