/* Products of bytes with AVX2: VPMADDUBSW multiplies twice as many at a time as VPMADDWD, but saturates where the sum
 * of two weights of the same sign is large.
 *
 * Any two inputs can form a pair, as long as they do so for all 16 outputs of a block. glowembed/kernels/x86/bytes.py
 * looks for pairs within each 32 inputs whose weights sum to at most 128 of either sign for every output: 128 * 255
 * fits int16. Where no such pair exists, the second weight is cut, and the remainder is multiplied by the same four
 * inputs in an additional step after all others. So each block has its own order of inputs, into which the inputs of a
 * few pixels are permuted first. The bytes of its record are: the most steps that the weights of a block take (0: there
 * are no records); the steps with remainders; the four inputs of each of these; and from GE_X86_BYTES_HEADER on, for
 * each 32 inputs, where each comes from if it stays in its half, and if it comes from the other half.
 *
 * A product is three instructions for 32 MACs, where pairs of int16 take four: 30 MACs per cycle on Zen 3 instead of
 * 24. Levels without GE_X86_BYTES never call these functions.
 */
#ifndef GE_X86_BYTES_H
#define GE_X86_BYTES_H

#include "ge_x86_portable.h"

#define GE_X86_BYTES_HEADER 16
#define GE_X86_BYTES_BLOCKS 4 /* blocks whose inputs are put in order at once */

/* Bytes of a record. */
#define GE_X86_BYTES_RECORD(inputs) (GE_X86_BYTES_HEADER + 2 * (inputs))

#if GE_X86_BYTES

/* Writes inputs + 128 of `pixels` in the orders of `blocks` records: [block][pixel][inputs]. `blocks` is a constant. */
static inline GE_X86_INLINE void ge_x86_bytes_order(const int8_t *const *from, int32_t pixels, int32_t inputs,
                                                    const uint8_t *records, uint8_t *to, const int32_t blocks) {
    const __m256i up = _mm256_set1_epi8(-128);
    const ptrdiff_t apart = (ptrdiff_t)pixels * inputs;
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
                _mm256_storeu_si256((__m256i *)(void *)(o + k * apart), y);
            }
            o += inputs;
        }
    }
}

/* acc[i] += the products of the weights of 16 outputs, [16][4], with four inputs of pixel i; `pixels` is a constant. */
static inline GE_X86_INLINE void ge_x86_bytes_step(ge_x86_sums *acc, const int8_t *w, const uint8_t *x, ptrdiff_t pitch,
                                                   const int32_t pixels) {
    const __m256i ones = _mm256_set1_epi16(1), low = ge_x86_at(w), high = ge_x86_at(w + 32);
    GE_X86_UNROLL
    for (int32_t i = 0; i < pixels; i++) {
        const __m256i four = _mm256_broadcastd_epi32(_mm_loadu_si32(x + i * pitch));
        const __m256i a = _mm256_madd_epi16(_mm256_maddubs_epi16(four, low), ones);
        const __m256i b = _mm256_madd_epi16(_mm256_maddubs_epi16(four, high), ones);
        acc[i].half[0] = _mm256_add_epi32(acc[i].half[0], a);
        acc[i].half[1] = _mm256_add_epi32(acc[i].half[1], b);
    }
}

/* Adds the products of all inputs, in the order of a record. */
static inline GE_X86_INLINE void ge_x86_bytes_product(ge_x86_sums *acc, const int8_t *w, const uint8_t *x,
                                                      int32_t inputs, const uint8_t *record, const int32_t pixels) {
    for (int32_t k = 0; k < inputs; k += 4) {
        ge_x86_bytes_step(acc, w, x + k, inputs, pixels);
        w += 64;
    }
    for (int32_t k = 0; k < record[1]; k++) {
        ge_x86_bytes_step(acc, w, x + 4 * record[2 + k], inputs, pixels);
        w += 64;
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
                                                      int32_t inputs, const uint8_t *record, const int32_t pixels) {
    (void)acc;
    (void)w;
    (void)x;
    (void)inputs;
    (void)record;
    (void)pixels;
}

#endif

#endif
