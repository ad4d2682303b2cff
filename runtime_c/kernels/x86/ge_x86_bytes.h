/* Products of bytes with AVX2: VPMADDUBSW takes twice as many at a time as VPMADDWD, and saturates where two weights of one sign
 * are large together.
 *
 * Which two inputs are a pair is free, as long as it is the same for the 16 outputs of a block. glowembed/kernels/x86.py looks for pairs
 * within each 32 inputs whose weights, of every output, sum up to at most 128 in either sign: 128 * 255 fits int16. Of
 * a pair that it cannot find, the second weight is cut, and the rest of it meets the same four inputs again in a step behind all
 * others. So each block has an order of its own, in which the inputs of a few pixels are put first. Bytes of its record: steps
 * that the weights of a block take, at most (0: there are no records); steps with rests; the four inputs of each of these; and
 * from GE_X86_BYTES_HEADER on, for each 32 inputs, where each comes from if it stays in its half, and if
 * it is of the other.
 *
 * A product is three instructions for 32 MACs, where pairs of int16 take four: 30 MACs a cycle on Zen 3, 24 otherwise.
 * Levels without GE_X86_BYTES never come here.
 */
#ifndef GE_X86_BYTES_H
#define GE_X86_BYTES_H

#include "ge_x86_portable.h"

#define GE_X86_BYTES_HEADER 16
#define GE_X86_BYTES_BLOCKS 4 /* whose inputs are put in order at once */

/* Bytes of a record. */
#define GE_X86_BYTES_RECORD(inputs) (GE_X86_BYTES_HEADER + 2 * (inputs))

#if GE_X86_BYTES

/* Inputs + 128 of `pixels` in the orders of `blocks` records: [block][pixel][inputs]. `blocks` is a constant. */
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

/* acc[i] += the products of 16 outputs, [16][4], with four inputs of pixel i; `pixels` is a constant. */
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

/* The same with all inputs in the order of a record. */
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
