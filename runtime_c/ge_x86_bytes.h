/* Products of bytes with AVX2: VPMADDUBSW takes twice as many at a time as VPMADDWD, and saturates where two weights of one sign
 * are large together.
 *
 * Which two inputs are a pair is free, as long as it is the same for the 16 outputs of a block. glowembed/x86.py looks for pairs
 * within each 32 inputs whose weights, of every output, sum up to at most 128 in either sign: 128 * 255 fits int16. Of
 * a pair that it cannot find, the second weight is cut, and the rest of it follows behind all pairs, beside a zero. So
 * each block has an order of its own, in which the inputs of a few pixels are put first. Bytes of its record: steps of
 * four inputs; steps that the weights of a block take, at most; how many inputs follow behind; these; and from
 * GE_X86_BYTES_HEADER on, for each 32 inputs, where each comes from if it stays in its half, and if it is of the other.
 *
 * A product is three instructions for 32 MACs, where pairs of int16 take four: 30 MACs a cycle on Zen 3, 24 otherwise.
 * Levels without GE_X86_BYTES never come here.
 */
#ifndef GE_X86_BYTES_H
#define GE_X86_BYTES_H

#include "ge_x86_portable.h"

#define GE_X86_BYTES_HEADER 16
#define GE_X86_BYTES_BLOCKS 4 /* whose inputs are put in order at once */

/* Bytes of the inputs of a pixel in the order of a block, and of a record. */
#define GE_X86_BYTES_PIXEL(inputs) ((inputs) + 32)
#define GE_X86_BYTES_RECORD(inputs) (GE_X86_BYTES_HEADER + 2 * (inputs))

#if GE_X86_BYTES

/* Inputs + 128 of `pixels` in the orders of `blocks` records: [block][pixel][GE_X86_BYTES_PIXEL]. `blocks` is a constant. */
static inline GE_X86_INLINE void ge_x86_bytes_order(const int8_t *const *from, int32_t pixels, int32_t inputs,
                                                    const uint8_t *records, uint8_t *to, const int32_t blocks) {
    const __m256i up = _mm256_set1_epi8(-128);
    const ptrdiff_t apart = GE_X86_BYTES_PIXEL(inputs), block_apart = pixels * apart;
    for (int32_t c = 0; c < inputs; c += 32) {
        __m256i stays[GE_X86_BYTES_BLOCKS], moves[GE_X86_BYTES_BLOCKS];
        GE_X86_UNROLL
        for (int32_t k = 0; k < blocks; k++) {
            const uint8_t *const at = records + k * GE_X86_BYTES_RECORD(inputs) + GE_X86_BYTES_HEADER + 2 * c;
            stays[k] = ge_x86_at(at);
            moves[k] = ge_x86_at(at + 32);
        }
        uint8_t *o = to + c;
        for (int32_t i = 0; i < pixels; i++) {
            const __m256i x = _mm256_xor_si256(ge_x86_at(from[i] + c), up);
            const __m256i other = _mm256_permute2x128_si256(x, x, 1);
            GE_X86_UNROLL
            for (int32_t k = 0; k < blocks; k++) {
                const __m256i y =
                    _mm256_or_si256(_mm256_shuffle_epi8(x, stays[k]), _mm256_shuffle_epi8(other, moves[k]));
                _mm256_storeu_si256((__m256i *)(void *)(o + k * block_apart), y);
            }
            o += apart;
        }
    }
    for (int32_t block = 0; block < blocks; block++) {
        const uint8_t *const record = records + block * GE_X86_BYTES_RECORD(inputs);
        for (int32_t k = 0; k < record[2]; k += 2) {
            const int32_t first = record[3 + k], second = record[4 + k];
            uint8_t *o = to + block * block_apart + inputs + 2 * k;
            for (int32_t i = 0; i < pixels; i++) {
                const uint32_t both = (uint32_t)(uint8_t)from[i][first] | (uint32_t)(uint8_t)from[i][second] << 16;
                const uint32_t four = both ^ 0x800080u;
                memcpy(o, &four, 4);
                o += apart;
            }
        }
    }
}

/* acc[i] += the products of 16 outputs with pixel i; `pixels` is a constant. Weights are [steps][16][4]. */
static inline GE_X86_INLINE void ge_x86_bytes_product(ge_x86_sums *acc, const int8_t *w, const uint8_t *x,
                                                      ptrdiff_t pitch, int32_t steps, const int32_t pixels) {
    const __m256i ones = _mm256_set1_epi16(1);
    for (int32_t step = 0; step < steps; step++) {
        const __m256i low = ge_x86_at(w), high = ge_x86_at(w + 32);
        GE_X86_UNROLL
        for (int32_t i = 0; i < pixels; i++) {
            const __m256i four = _mm256_broadcastd_epi32(_mm_loadu_si32(x + i * pitch));
            const __m256i a = _mm256_madd_epi16(_mm256_maddubs_epi16(four, low), ones);
            const __m256i b = _mm256_madd_epi16(_mm256_maddubs_epi16(four, high), ones);
            acc[i].half[0] = _mm256_add_epi32(acc[i].half[0], a);
            acc[i].half[1] = _mm256_add_epi32(acc[i].half[1], b);
        }
        w += 64;
        x += 4;
    }
}

#else

static inline GE_X86_INLINE void ge_x86_bytes_order(const int8_t *const *from, int32_t pixels, int32_t inputs,
                                                    const uint8_t *records, uint8_t *to, const int32_t blocks) {
    (void)from;
    (void)pixels;
    (void)inputs;
    (void)records;
    (void)to;
    (void)blocks;
}

static inline GE_X86_INLINE void ge_x86_bytes_product(ge_x86_sums *acc, const int8_t *w, const uint8_t *x,
                                                      ptrdiff_t pitch, int32_t steps, const int32_t pixels) {
    (void)acc;
    (void)w;
    (void)x;
    (void)pitch;
    (void)steps;
    (void)pixels;
}

#endif

#endif
