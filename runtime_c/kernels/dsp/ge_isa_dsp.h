/* Code that the kernels of Cortex-M4, M7 and M33 share: loops that a compiler cannot generate, in GNU assembler syntax.
 *
 * Weights of two channels lie in one half-word, 256 * a + b (as one 16-bit number). SMLAD on the raw word adds up S =
 * 256 * A + B, SXTB16 leaves b, and a second SMLAD adds up B; at the end A = (S - B) / 256. All arithmetic is modulo
 * 2^32, so it is exact where |A| < 2^23; the Python code proves this for each channel. Weights are read once, in their
 * stored form.
 *
 * ge_isa_dsp_frame.h describes where loops keep values for which there are no registers. */
#ifndef GE_ISA_DSP_H
#define GE_ISA_DSP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ge_isa_dsp_frame.h"
#include "ge_isa_dsp_law.h"

/* The strings of some loops are longer than the 4095 characters that C99 requires every compiler to accept; compilers
 * that support this assembly accept them. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

/* Job of ge_dsp_gemm; the order of its words is that of the frame. */
typedef struct {
    const uint32_t *x;  /* columns of two pixels, interleaved: for each pair of k, a word of the first and a word of the
                         * second */
    int8_t *const *out; /* where each pixel's channels begin; an even number */
    int32_t pairs;      /* pairs of pixels */
    int32_t groups;     /* groups of four channels */
    const uint32_t *w;  /* for each group: S01, B01, S23, B23, two words for each pair of k, requantization words */
    uint32_t weight_bytes; /* bytes of the weights of one group */
    uint32_t skip;         /* bytes of the unrolled loop that its first iteration skips */
    int32_t zero_point;    /* of the output */
    int32_t down;          /* 8 - (32 - shift of the requantization), 1..8 */
    int32_t channel;       /* the first one, as an offset from `out` */
} ge_dsp_gemm_job;

/* Bytes of one step (two k) in ge_dsp_gemm, and steps in its loop. */
#define GE_DSP_GEMM_STEP 56
#define GE_DSP_GEMM_UNROLL 8

static inline uint32_t ge_dsp_gemm_skip(int32_t steps, int32_t step) {
    const int32_t rest = steps % GE_DSP_GEMM_UNROLL;
    return rest == 0 ? 0u : (uint32_t)((GE_DSP_GEMM_UNROLL - rest) * step);
}

/* clang-format off */

/* Groups and pairs of pixels, up to the unrolled loop at 3: r2 r4 r6 r8 and r3 r5 r7 r9 hold the start values of the
 * sums. */
#define GE_DSP_GEMM_BEGIN(function, law) \
    GE_DSP_ENTER(function, law, "r1-r6, r8-r11") \
    "    adr r1, 3f\n" \
    "    ldr.w r2, [sp, #4*6]\n" \
    "    add r1, r1, r2\n" \
    "    orr r1, r1, #1\n" \
    "    str.w r1, [sp, #4*6]\n" \
    "    b 1f\n" \
    "    .balign 4\n" \
    "1:\n" /* four channels */ \
    "    ldr.w r0, [sp, #4*4]\n" \
    "    ldr.w r1, [sp, #4*5]\n" \
    "    add r1, r1, r0\n" \
    "    add r1, r1, #16\n" \
    "    ldm.w sp, {r2-r4}\n" \
    "    str.w r1, [sp, #4*10]\n" /* end of the weights */ \
    "    str.w r2, [sp, #4*11]\n" \
    "    str.w r3, [sp, #4*12]\n" \
    "    str.w r4, [sp, #4*13]\n" \
    "    .balign 4\n" \
    "2:\n" /* two pixels */ \
    "    ldr.w r0, [sp, #4*4]\n" \
    "    ldr.w r1, [sp, #4*11]\n" \
    "    ldr.w r12, [sp, #4*6]\n" \
    "    ldr.w r4, [r0, #4]\n" \
    "    ldr.w r6, [r0, #8]\n" \
    "    ldr.w r8, [r0, #12]\n" \
    "    ldr.w r2, [r0], #16\n" \
    "    mov r3, r2\n" \
    "    mov r5, r4\n" \
    "    mov r7, r6\n" \
    "    mov r9, r8\n" \
    "    bx r12\n" \
    "    .balign 4\n" \
    "3:\n"

/* From label 4 on: r2 r3 sums of the first channel, r4 r5 second, r6 r7 third, r8 r9 fourth; up to the end of the
 * loops. The operand `law` is the number of the law. */
#define GE_DSP_GEMM_END(law) \
    "4:\n" \
    "    .if %c[law] == 0\n" \
    "    ldr.w r11, [r0, #4]\n" \
    "    ldr.w r12, [r0, #8]\n" \
    "    ldr.w lr, [r0, #12]\n" \
    "    ldr.w r10, [r0], #16\n" \
    "    ldr.w r1, [sp, #4*7]\n" \
    "    smmlar r2, r2, r10, r1\n" \
    "    smmlar r3, r3, r10, r1\n" \
    "    smmlar r4, r4, r11, r1\n" \
    "    smmlar r5, r5, r11, r1\n" \
    "    smmlar r6, r6, r12, r1\n" \
    "    smmlar r7, r7, r12, r1\n" \
    "    smmlar r8, r8, lr, r1\n" \
    "    smmlar r9, r9, lr, r1\n" \
    "    .endif\n" \
    GE_DSP_LAW_TWO(law, "r0", "r2", "r3", "r10", "r11", "r12") \
    GE_DSP_LAW_TWO(law, "r0", "r4", "r5", "r10", "r11", "r12") \
    GE_DSP_LAW_TWO(law, "r0", "r6", "r7", "r10", "r11", "r12") \
    GE_DSP_LAW_TWO(law, "r0", "r8", "r9", "r10", "r11", "r12") \
    GE_DSP_LAW_SELDOM(law, "r0", "r11", "r12") \
    "    ldr.w r10, [sp, #4*12]\n" \
    "    ldr.w r1, [sp, #4*9]\n" \
    "    ldr.w lr, [sp, #4*13]\n" \
    "    ldr.w r12, [r10, #4]\n" \
    "    ldr.w r11, [r10], #8\n" \
    "    str.w r10, [sp, #4*12]\n" \
    "    add r11, r11, r1\n" \
    "    add r12, r12, r1\n" \
    "    ssat r2, #8, r2\n" \
    "    ssat r3, #8, r3\n" \
    "    ssat r4, #8, r4\n" \
    "    ssat r5, #8, r5\n" \
    "    ssat r6, #8, r6\n" \
    "    ssat r7, #8, r7\n" \
    "    ssat r8, #8, r8\n" \
    "    ssat r9, #8, r9\n" \
    "    strb r3, [r12]\n" \
    "    strb r5, [r12, #1]\n" \
    "    strb r7, [r12, #2]\n" \
    "    strb r9, [r12, #3]\n" \
    "    subs.w lr, lr, #1\n" \
    "    strb r2, [r11]\n" \
    "    strb r4, [r11, #1]\n" \
    "    strb r6, [r11, #2]\n" \
    "    strb r8, [r11, #3]\n" \
    "    str.w lr, [sp, #4*13]\n" \
    "    bne.w 2b\n" \
    "    str.w r0, [sp, #4*4]\n" /* the next group begins where this one ends */ \
    "    ldr.w r1, [sp, #4*9]\n" \
    "    add r1, r1, #4\n" \
    "    str.w r1, [sp, #4*9]\n" \
    "    ldr.w r1, [sp, #4*3]\n" \
    "    subs r1, r1, #1\n" \
    "    str.w r1, [sp, #4*3]\n" \
    "    bne.w 1b\n" \
    "    b 6f\n"

/* All of ge_dsp_gemm for one law. */
#define GE_DSP_GEMM(function, law) \
    GE_DSP_GEMM_BEGIN(function, law) \
    "    .rept 8\n" \
    "    ldr.w r11, [r0, #4]\n" \
    "    ldr.w r10, [r0], #8\n" \
    "    ldr.w lr, [r1, #4]\n" \
    "    ldr.w r12, [r1], #8\n" \
    "    smlad r2, r10, r12, r2\n" \
    "    smlad r3, r10, lr, r3\n" \
    "    smlad r6, r11, r12, r6\n" \
    "    smlad r7, r11, lr, r7\n" \
    "    sxtb16 r10, r10\n" \
    "    sxtb16 r11, r11\n" \
    "    smlad r4, r10, r12, r4\n" \
    "    smlad r5, r10, lr, r5\n" \
    "    smlad r8, r11, r12, r8\n" \
    "    smlad r9, r11, lr, r9\n" \
    "    .endr\n" \
    "    ldr.w r12, [sp, #4*10]\n" \
    "    cmp r0, r12\n" \
    "    bne.w 3b\n" \
    "    str.w r1, [sp, #4*11]\n" \
    "    ldr.w r12, [sp, #4*8]\n" \
    "    sub r2, r2, r4\n" \
    "    sub r3, r3, r5\n" \
    "    sub r6, r6, r8\n" \
    "    sub r7, r7, r9\n" \
    "    asr r2, r2, r12\n" \
    "    asr r3, r3, r12\n" \
    "    asr r6, r6, r12\n" \
    "    asr r7, r7, r12\n" \
    "    cmp r12, #8\n" \
    "    bne 5f\n" \
    GE_DSP_GEMM_END(law) \
    "5:\n" /* shift below 32: the other accumulators are shifted up by what these were shifted down less */ \
    "    rsb r12, r12, #8\n" \
    "    lsl r4, r4, r12\n" \
    "    lsl r5, r5, r12\n" \
    "    lsl r8, r8, r12\n" \
    "    lsl r9, r9, r12\n" \
    "    b 4b\n" \
    "6:\n" \
    GE_DSP_LEAVE

#define GE_DSP_GEMM_CHANGES(law) \
    "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", \
    "memory" GE_DSP_LAW_CHANGES(law)

/* clang-format on */

/* 4 channels x 2 pixels: y = ssat8(((acc << (8 - down)) * multiplier + 2^31 >> 32) + zero_point). r0 weights, r1 x, r2
 * r3 S01 of the pixels, r4 r5 B01, r6 r7 S23, r8 r9 B23, r10 r11 weights, r12 lr x. Cost: 15 cycles for 16 products, 68
 * per 8 outputs. A lone last pixel is given twice, and its copy is overwritten. */
__attribute__((unused, noinline)) static void ge_dsp_gemm(const ge_dsp_gemm_job *job) {
    register const ge_dsp_gemm_job *r0 __asm__("r0") = job;
    __asm__ volatile(GE_DSP_GEMM(ge_dsp_gemm, 0) : "+r"(r0) : [law] "i"(0) : GE_DSP_GEMM_CHANGES(0));
}

/* The code from the end of the unrolled loop on, for sums that need not be separated. */
#define GE_DSP_GEMM_WIDE_END                                                                                           \
    "    ldr.w r12, [sp, #4*10]\n"                                                                                     \
    "    cmp r0, r12\n"                                                                                                \
    "    bne.w 3b\n"                                                                                                   \
    "    str.w r1, [sp, #4*11]\n"                                                                                      \
    "    ldr.w r12, [sp, #4*8]\n"                                                                                      \
    "    rsbs r12, r12, #8\n"                                                                                          \
    "    bne 5f\n" GE_DSP_GEMM_END(0) "5:\n" /* shift below 32 */                                                      \
                                      "    lsl r2, r2, r12\n"                                                          \
                                      "    lsl r3, r3, r12\n"                                                          \
                                      "    lsl r4, r4, r12\n"                                                          \
                                      "    lsl r5, r5, r12\n"                                                          \
                                      "    lsl r6, r6, r12\n"                                                          \
                                      "    lsl r7, r7, r12\n"                                                          \
                                      "    lsl r8, r8, r12\n"                                                          \
                                      "    lsl r9, r9, r12\n"                                                          \
                                      "    b 4b\n"                                                                     \
                                      "6:\n" GE_DSP_LEAVE

#define GE_DSP_GEMM_WIDE_STEP 64

/* The same job for weights that do not share a half-word: for each group w has 4 start values of sums, two words for
 * each pair of k, 4 multipliers; the words are the bytes a0 b0 a1 b1 and c0 d0 c1 d1 of channels a, b, c, d. Sums may
 * have 32 bits, also when shifted left by 8 - down. Cost: 18 cycles for 16 products. */
__attribute__((unused, noinline)) static void ge_dsp_gemm_wide(const ge_dsp_gemm_job *job) {
    register const ge_dsp_gemm_job *r0 __asm__("r0") = job;
    __asm__ volatile(GE_DSP_GEMM_BEGIN(ge_dsp_gemm_wide, 0) "    .rept 8\n"
                                                            "    ldr.w r10, [r0], #4\n"
                                                            "    ldr.w lr, [r1, #4]\n"
                                                            "    ldr.w r12, [r1], #8\n"
                                                            "    sxtb16 r11, r10\n"
                                                            "    sxtb16 r10, r10, ror #8\n"
                                                            "    smlad r2, r11, r12, r2\n"
                                                            "    smlad r3, r11, lr, r3\n"
                                                            "    smlad r4, r10, r12, r4\n"
                                                            "    smlad r5, r10, lr, r5\n"
                                                            "    ldr.w r10, [r0], #4\n"
                                                            "    sxtb16 r11, r10\n"
                                                            "    sxtb16 r10, r10, ror #8\n"
                                                            "    smlad r6, r11, r12, r6\n"
                                                            "    smlad r7, r11, lr, r7\n"
                                                            "    smlad r8, r10, r12, r8\n"
                                                            "    smlad r9, r10, lr, r9\n"
                                                            "    .endr\n" GE_DSP_GEMM_WIDE_END
                     : "+r"(r0)
                     : [law] "i"(0)
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

#define GE_DSP_GEMM_PAIRS_STEP 56

/* The same job for weights of more than 8 bits: for each group w has 4 start values of sums, four words for each pair
 * of k, one for each channel with two weights as int16, and 4 multipliers. Sums are as in ge_dsp_gemm_wide. Cost: 16
 * cycles for 16 products. */
__attribute__((unused, noinline)) static void ge_dsp_gemm_pairs(const ge_dsp_gemm_job *job) {
    register const ge_dsp_gemm_job *r0 __asm__("r0") = job;
    __asm__ volatile(GE_DSP_GEMM_BEGIN(ge_dsp_gemm_pairs, 0) "    .rept 8\n"
                                                             "    ldr.w r10, [r0, #4]\n"
                                                             "    ldr.w r11, [r0, #8]\n"
                                                             "    ldr.w lr, [r1, #4]\n"
                                                             "    ldr.w r12, [r1], #8\n"
                                                             "    smlad r4, r10, r12, r4\n"
                                                             "    smlad r5, r10, lr, r5\n"
                                                             "    smlad r6, r11, r12, r6\n"
                                                             "    smlad r7, r11, lr, r7\n"
                                                             "    ldr.w r11, [r0, #12]\n"
                                                             "    ldr.w r10, [r0], #16\n"
                                                             "    smlad r8, r11, r12, r8\n"
                                                             "    smlad r9, r11, lr, r9\n"
                                                             "    smlad r2, r10, r12, r2\n"
                                                             "    smlad r3, r10, lr, r3\n"
                                                             "    .endr\n" GE_DSP_GEMM_WIDE_END
                     : "+r"(r0)
                     : [law] "i"(0)
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* Stores four elements, with GAP bytes from word to word; the source word is in `word`. */
#define GE_DSP_EXPAND_FOUR(word, at, gap)                                                                              \
    "    sxtb16 %[t], %[" word "]\n"                                                                                   \
    "    sxtb16 %[" word "], %[" word "], ror #8\n"                                                                    \
    "    str.w %[t], [%[y], #2*" at "*" gap "]\n"                                                                      \
    "    str.w %[" word "], [%[y], #(2*" at "+1)*" gap "]\n"

#define GE_DSP_EXPAND(x, count, to, gap)                                                                               \
    __asm__ volatile("    subs %[n], %[n], #4\n"                                                                       \
                     "    blt 2f\n"                                                                                    \
                     "    .balign 4\n"                                                                                 \
                     "1:\n"                                                                                            \
                     "    ldr.w %[b], [%[x], #4]\n"                                                                    \
                     "    ldr.w %[c], [%[x], #8]\n"                                                                    \
                     "    ldr.w %[d], [%[x], #12]\n"                                                                   \
                     "    ldr.w %[a], [%[x]], #16\n" GE_DSP_EXPAND_FOUR("a", "0", gap)                                 \
                         GE_DSP_EXPAND_FOUR("b", "1", gap) GE_DSP_EXPAND_FOUR("c", "2", gap)                           \
                             GE_DSP_EXPAND_FOUR("d", "3", gap) "    subs %[n], %[n], #4\n"                             \
                                                               "    add.w %[y], %[y], #8*" gap "\n"                    \
                                                               "    bge 1b\n"                                          \
                                                               "2:\n"                                                  \
                                                               "    adds %[n], %[n], #4\n"                             \
                                                               "    beq 4f\n"                                          \
                                                               "    .balign 4\n"                                       \
                                                               "3:\n"                                                  \
                                                               "    ldr.w %[a], [%[x]], #4\n"                          \
                                                               "    subs %[n], %[n], #1\n" GE_DSP_EXPAND_FOUR(         \
                                                                   "a", "0", gap) "    add.w %[y], %[y], #2*" gap "\n" \
                                                                                  "    bne 3b\n"                       \
                                                                                  "4:\n"                               \
                     : [x] "+r"(x), [y] "+r"(to), [n] "+r"(count), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c),           \
                       [d] "=&r"(d), [t] "=&r"(t)                                                                      \
                     :                                                                                                 \
                     : "cc", "memory")

/* Returns the last one or two elements of a remainder as a word. */
static inline uint32_t ge_dsp_pair(const int8_t *x, int32_t count) {
    const uint32_t second = count > 1 ? (uint32_t)(int32_t)x[1] << 16 : 0u;
    return ((uint32_t)(int32_t)x[0] & 0xFFFFu) | second;
}

/* Expands `count` int8 to int16 in words that are two words apart: for each four elements (x0, x2) and (x1, x3); for a
 * remainder (x0, x1) and (x2, 0). Reads whole words of x where there are four elements. Returns the address after the
 * last word. Cost: 1.5 cycles per element. */
static inline uint32_t *ge_dsp_expand(const int8_t *x, int32_t count, uint32_t *to) {
    int32_t words = count >> 2;
    uint32_t a, b, c, d, t;
    GE_DSP_EXPAND(x, words, to, "8");
    for (int32_t rest = count & 3; rest > 0; rest -= 2) {
        *to = ge_dsp_pair(x, rest);
        to += 2;
        x += 2;
    }
    return to;
}

/* Does the same into contiguous words. */
static inline uint32_t *ge_dsp_expand_dense(const int8_t *x, int32_t count, uint32_t *to) {
    int32_t words = count >> 2;
    uint32_t a, b, c, d, t;
    GE_DSP_EXPAND(x, words, to, "4");
    for (int32_t rest = count & 3; rest > 0; rest -= 2) {
        *to++ = ge_dsp_pair(x, rest);
        x += 2;
    }
    return to;
}

/* Returns the number of words that `count` elements take in ge_dsp_expand. */
static inline int32_t ge_dsp_words(int32_t count) {
    return (count >> 2) * 2 + ((count & 3) + 1) / 2;
}

/* Copies bytes, because memcpy of the small C libraries copies byte by byte. Cost: 12 cycles for 16 bytes. */
static inline void ge_dsp_copy(int8_t *to, const int8_t *from, int32_t bytes) {
    uint32_t a, b, c, d;
    if (bytes >= 16) {
        __asm__ volatile("    .balign 4\n"
                         "1:\n"
                         "    ldr.w %[b], [%[from], #4]\n"
                         "    ldr.w %[c], [%[from], #8]\n"
                         "    ldr.w %[d], [%[from], #12]\n"
                         "    ldr.w %[a], [%[from]], #16\n"
                         "    sub.w %[bytes], %[bytes], #16\n"
                         "    str.w %[b], [%[to], #4]\n"
                         "    str.w %[c], [%[to], #8]\n"
                         "    str.w %[d], [%[to], #12]\n"
                         "    str.w %[a], [%[to]], #16\n"
                         "    cmp.w %[bytes], #16\n"
                         "    bge.w 1b\n"
                         : [to] "+&r"(to), [from] "+&r"(from), [bytes] "+&r"(bytes), [a] "=&r"(a), [b] "=&r"(b),
                           [c] "=&r"(c), [d] "=&r"(d)
                         :
                         : "cc", "memory");
    }
    for (; bytes >= 4; bytes -= 4) {
        memcpy(to, from, 4);
        to += 4;
        from += 4;
    }
    for (; bytes > 0; bytes--) {
        *to++ = *from++;
    }
}

/* Clamps n outputs to lo..hi, limits inside those of int8. */
static inline void ge_dsp_clamp(int8_t *y, int32_t n, int32_t lo, int32_t hi) {
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = y[i];
        y[i] = (int8_t)(v < lo ? lo : (v > hi ? hi : v));
    }
}

#endif
