/* Products of two rows with all columns of a matrix, both computed at run time, for Cortex-M4, M7 and M33.
 *
 * The matrix is packed once: the bytes of two columns are adjacent, u of the first one, plus 128, and b of the second
 * one, so a half-word is 256 * b + u. SMLAD on the raw word adds up S = 256 * B + U, UXTB16 leaves u, and a second
 * SMLAD adds up U; at the end S - U = 256 * B. All arithmetic is modulo 2^32, so it is exact where |B| < 2^23: sums of
 * more products are computed in chunks. The upper word of 256 * B * multiplier has 8 bits more than an output, which
 * its saturation shifts out: consecutive floors are exact. A row is int16 less its zero point. The contribution of the
 * matrix's zero point and of the 128 depends only on the sum of a row, and is the start value of its sums. Cost: 15
 * cycles for 16 products, 63 per 8 outputs. */
#ifndef GE_ISA_DSP_MATMUL_H
#define GE_ISA_DSP_MATMUL_H

#include "ge.h"
#include "ge_isa_dsp.h"

/* Elements of a row or column are stored in groups of four, and so are the columns of a matrix. */
#define GE_DSP_MATMUL_FOUR 4

/* Bytes of one step (two elements of a row) in the loop, and steps in it. */
#define GE_DSP_MATMUL_STEP 56
#define GE_DSP_MATMUL_UNROLL 16

/* Job of the loops; the order of its words is that of the frame. */
typedef struct {
    const uint32_t *x;     /* two rows: one word of the first, one of the second, and so on */
    const uint32_t *x_end; /* after the last word that is read */
    uint32_t skip;         /* bytes of the unrolled loop that its first iteration skips */
    uint32_t gap;          /* bytes of the matrix between four columns and the next four */
    uint32_t s[2];         /* start values of the sums of each row: S, then U */
    uint32_t u[2];
    int32_t multiplier[2]; /* of each row */
    int32_t zero_point;    /* of the output */
    int32_t fine;          /* 256 times the zero point, and a half */
    int8_t *out_end;       /* of the first row, after the last four columns */
    int8_t *out[2];
} ge_dsp_matmul_job;

/* clang-format off */

/* r0: the job, r1: the matrix. The sums of columns 0 to 3 of the first row: r4 r2 r8 r6, of the second one: r5 r3
 * r9 r7. */
#define GE_DSP_MATMUL_SUMS(function) \
    GE_DSP_ENTER(function, 0, "r2-r12, lr") \
    "    ldr.w r2, [r0, #48]\n" \
    "    ldr.w r3, [r0, #52]\n" \
    "    ldr.w r4, [r0, #56]\n" \
    "    str.w r2, [sp, #48]\n" \
    "    str.w r3, [sp, #52]\n" \
    "    str.w r4, [sp, #56]\n" \
    "    adr r2, 3f\n" \
    "    ldr.w r3, [sp, #8]\n" \
    "    add r2, r2, r3\n" \
    "    orr r2, r2, #1\n" \
    "    str.w r2, [sp, #8]\n" \
    "    mov.w r0, r1\n" \
    "    b.w 1f\n" \
    "    .balign 4\n" \
    "3:\n" \
    "    .rept 16\n" \
    "    ldr.w r11, [r0, #4]\n" \
    "    ldr.w r10, [r0], #8\n" \
    "    ldr.w lr, [r1, #4]\n" \
    "    ldr.w r12, [r1], #8\n" \
    "    smlad r2, r10, r12, r2\n" \
    "    smlad r3, r10, lr, r3\n" \
    "    smlad r6, r11, r12, r6\n" \
    "    smlad r7, r11, lr, r7\n" \
    "    uxtb16 r10, r10\n" \
    "    uxtb16 r11, r11\n" \
    "    smlad r4, r10, r12, r4\n" \
    "    smlad r5, r10, lr, r5\n" \
    "    smlad r8, r11, r12, r8\n" \
    "    smlad r9, r11, lr, r9\n" \
    "    .endr\n" \
    "    ldr.w r12, [sp, #4]\n" \
    "    cmp.w r1, r12\n" \
    "    bne.w 3b\n" \
    "    sub r2, r2, r4\n" \
    "    sub r3, r3, r5\n" \
    "    sub r6, r6, r8\n" \
    "    sub r7, r7, r9\n"

/* r12, lr: addresses of the outputs of the rows, r10: where those of the first one end. */
#define GE_DSP_MATMUL_WHERE \
    "    ldr.w r12, [sp, #52]\n" \
    "    ldr.w lr, [sp, #56]\n" \
    "    ldr.w r10, [sp, #48]\n"

/* Computes the upper words of the products with the multiplier, in r10 and, for the second row, in the register
 * `second` or the same one, plus the zero point, saturated. */
#define GE_DSP_MATMUL_REQUANTIZE(second, bits) \
    "    ldr.w r12, [sp, #40]\n" \
    "    ldr.w lr, [sp, #44]\n" \
    "    smmlar r4, r4, r10, r12\n" \
    "    smmla r2, r2, r10, lr\n" \
    "    smmlar r8, r8, r10, r12\n" \
    "    smmla r6, r6, r10, lr\n" \
    "    smmlar r5, r5, " second ", r12\n" \
    "    smmla r3, r3, " second ", lr\n" \
    "    smmlar r9, r9, " second ", r12\n" \
    "    smmla r7, r7, " second ", lr\n" \
    GE_DSP_MATMUL_WHERE \
    "    ssat r4, #" bits ", r4\n" \
    "    ssat r2, #" bits ", r2, asr #8\n" \
    "    ssat r8, #" bits ", r8\n" \
    "    ssat r6, #" bits ", r6, asr #8\n" \
    "    ssat r5, #" bits ", r5\n" \
    "    ssat r3, #" bits ", r3, asr #8\n" \
    "    ssat r9, #" bits ", r9\n" \
    "    ssat r7, #" bits ", r7, asr #8\n"

#define GE_DSP_MATMUL_MULTIPLIER "    ldr.w r10, [sp, #32]\n"

#define GE_DSP_MATMUL_MULTIPLIERS \
    GE_DSP_MATMUL_MULTIPLIER \
    "    ldr.w r11, [sp, #36]\n"

#define GE_DSP_MATMUL_STORE_BYTES \
    "    strb r4, [r12], #4\n" \
    "    strb r2, [r12, #-3]\n" \
    "    strb r8, [r12, #-2]\n" \
    "    strb r6, [r12, #-1]\n" \
    "    strb r5, [lr], #4\n" \
    "    strb r3, [lr, #-3]\n" \
    "    strb r9, [lr, #-2]\n" \
    "    strb r7, [lr, #-1]\n"

/* For columns that have more steps than are read. */
#define GE_DSP_MATMUL_GAP \
    "    ldr.w r11, [sp, #12]\n" \
    "    add.w r0, r0, r11\n"

/* Advances to the next four columns; all loops begin with this. */
#define GE_DSP_MATMUL_NEXT \
    "    str.w r12, [sp, #52]\n" \
    "    str.w lr, [sp, #56]\n" \
    "    cmp.w r12, r10\n" \
    "    beq.w 2f\n" \
    "1:\n" \
    "    ldr.w r12, [sp, #8]\n" \
    "    ldr.w r1, [sp]\n" \
    "    ldr.w r2, [sp, #16]\n" \
    "    ldr.w r3, [sp, #20]\n" \
    "    ldr.w r4, [sp, #24]\n" \
    "    ldr.w r5, [sp, #28]\n" \
    "    mov r6, r2\n" \
    "    mov r7, r3\n" \
    "    mov r8, r4\n" \
    "    mov r9, r5\n" \
    "    bx r12\n" \
    "2:\n" \
    GE_DSP_LEAVE

#define GE_DSP_MATMUL_CHANGES \
    "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory"

/* clang-format on */

/* Each output is an int8 of its row, requantized by the multiplier of the first row. All steps of the columns are
 * read. */
__attribute__((unused, noinline)) static void ge_dsp_matmul_bytes(const ge_dsp_matmul_job *job,
                                                                  const uint32_t *matrix) {
    register const ge_dsp_matmul_job *r0 __asm__("r0") = job;
    register const uint32_t *r1 __asm__("r1") = matrix;
    __asm__ volatile(GE_DSP_MATMUL_SUMS(ge_dsp_matmul_bytes)
                         GE_DSP_MATMUL_MULTIPLIER GE_DSP_MATMUL_REQUANTIZE("r10", "8")
                             GE_DSP_MATMUL_STORE_BYTES GE_DSP_MATMUL_NEXT
                     : "+r"(r0), "+r"(r1)
                     :
                     : GE_DSP_MATMUL_CHANGES);
}

/* Each output is an int16 of 14 bits, in words of two columns: one of the first row and one of the second alternate. */
__attribute__((unused, noinline)) static void ge_dsp_matmul_scores(const ge_dsp_matmul_job *job,
                                                                   const uint32_t *matrix) {
    register const ge_dsp_matmul_job *r0 __asm__("r0") = job;
    register const uint32_t *r1 __asm__("r1") = matrix;
    __asm__ volatile(GE_DSP_MATMUL_SUMS(ge_dsp_matmul_scores) GE_DSP_MATMUL_MULTIPLIER GE_DSP_MATMUL_REQUANTIZE(
                         "r10", "14") "    pkhbt r4, r4, r2, lsl #16\n"
                                      "    pkhbt r5, r5, r3, lsl #16\n"
                                      "    pkhbt r8, r8, r6, lsl #16\n"
                                      "    pkhbt r9, r9, r7, lsl #16\n"
                                      "    str.w r5, [r12, #4]\n"
                                      "    str.w r8, [r12, #8]\n"
                                      "    str.w r9, [r12, #12]\n"
                                      "    str.w r4, [r12], #16\n" GE_DSP_MATMUL_NEXT
                     : "+r"(r0), "+r"(r1)
                     :
                     : GE_DSP_MATMUL_CHANGES);
}

/* Each output is an int8, requantized by the multiplier of its row. */
__attribute__((unused, noinline)) static void ge_dsp_matmul_values(const ge_dsp_matmul_job *job,
                                                                   const uint32_t *matrix) {
    register const ge_dsp_matmul_job *r0 __asm__("r0") = job;
    register const uint32_t *r1 __asm__("r1") = matrix;
    __asm__ volatile(GE_DSP_MATMUL_SUMS(ge_dsp_matmul_values)
                         GE_DSP_MATMUL_MULTIPLIERS GE_DSP_MATMUL_REQUANTIZE("r11", "8")
                             GE_DSP_MATMUL_STORE_BYTES GE_DSP_MATMUL_GAP GE_DSP_MATMUL_NEXT
                     : "+r"(r0), "+r"(r1)
                     :
                     : GE_DSP_MATMUL_CHANGES);
}

/* The sums themselves are added to the int32 at the output: one of the first row and one of the second alternate. */
__attribute__((unused, noinline)) static void ge_dsp_matmul_sums(const ge_dsp_matmul_job *job, const uint32_t *matrix) {
    register const ge_dsp_matmul_job *r0 __asm__("r0") = job;
    register const uint32_t *r1 __asm__("r1") = matrix;
    __asm__ volatile(GE_DSP_MATMUL_SUMS(ge_dsp_matmul_sums) "    ldr.w r12, [sp, #52]\n"
                                                            "    asr r2, r2, #8\n"
                                                            "    asr r3, r3, #8\n"
                                                            "    asr r6, r6, #8\n"
                                                            "    asr r7, r7, #8\n"
                                                            "    ldm.w r12, {r1, r10, r11, lr}\n"
                                                            "    add r4, r4, r1\n"
                                                            "    add r5, r5, r10\n"
                                                            "    add r2, r2, r11\n"
                                                            "    add r3, r3, lr\n"
                                                            "    ldr.w r1, [r12, #16]\n"
                                                            "    ldr.w r10, [r12, #20]\n"
                                                            "    ldr.w r11, [r12, #24]\n"
                                                            "    ldr.w lr, [r12, #28]\n"
                                                            "    add r8, r8, r1\n"
                                                            "    add r9, r9, r10\n"
                                                            "    add r6, r6, r11\n"
                                                            "    add r7, r7, lr\n" GE_DSP_MATMUL_WHERE GE_DSP_MATMUL_GAP
                                                            "    str.w r5, [r12, #4]\n"
                                                            "    str.w r2, [r12, #8]\n"
                                                            "    str.w r3, [r12, #12]\n"
                                                            "    str.w r8, [r12, #16]\n"
                                                            "    str.w r9, [r12, #20]\n"
                                                            "    str.w r6, [r12, #24]\n"
                                                            "    str.w r7, [r12, #28]\n"
                                                            "    str.w r4, [r12], #32\n" GE_DSP_MATMUL_NEXT
                     : "+r"(r0), "+r"(r1)
                     :
                     : GE_DSP_MATMUL_CHANGES);
}

/* Returns the number of steps for `count` elements of a row. */
static inline int32_t ge_dsp_matmul_steps(int32_t count) {
    return (count + GE_DSP_MATMUL_FOUR - 1) / GE_DSP_MATMUL_FOUR * 2;
}

/* Returns the largest distance of an int8 from a zero point. */
static inline int32_t ge_dsp_matmul_reach(int32_t zero_point) {
    return zero_point < 0 ? 127 - zero_point : zero_point + 128;
}

/* Returns how many elements of a row of numbers up to `reach` have sums below 2^23, rounded down to a multiple of
 * four. */
static inline int32_t ge_dsp_matmul_chunk(int32_t reach, int32_t zero_point) {
    return ((1 << 23) - 1) / (reach * ge_dsp_matmul_reach(zero_point)) / GE_DSP_MATMUL_FOUR * GE_DSP_MATMUL_FOUR;
}

/* Returns the first of the four columns of a group: where the number of columns is not a multiple of four, the first
 * group overlaps the second one. */
static inline int32_t ge_dsp_matmul_first(int32_t columns, int32_t group) {
    const int32_t behind = (columns + GE_DSP_MATMUL_FOUR - 1) / GE_DSP_MATMUL_FOUR - group;
    const int32_t first = columns - GE_DSP_MATMUL_FOUR * behind;
    return first > 0 ? first : 0;
}

/* Sets up the job to read two rows of `steps` steps, and a matrix whose columns have `all` steps. */
static inline void ge_dsp_matmul_rows(ge_dsp_matmul_job *job, const uint32_t *x, int32_t steps, int32_t all) {
    job->x = x;
    job->x_end = x + 2 * steps;
    job->skip = (uint32_t)(-steps & (GE_DSP_MATMUL_UNROLL - 1)) * GE_DSP_MATMUL_STEP;
    job->gap = (uint32_t)(all - steps) * 8u;
}

/* Sets the start values of a row whose sum is `sum`, for a matrix with a zero point. */
static inline void ge_dsp_matmul_start(ge_dsp_matmul_job *job, int32_t row, int32_t sum, int32_t zero_point) {
    const uint32_t b = (uint32_t)(-zero_point * sum);
    job->u[row] = b - 128u * (uint32_t)sum;
    job->s[row] = (b << 8) + job->u[row];
}

#define GE_DSP_MATMUL_PACK_FOUR                                                                                        \
    "    ldr.w %[a], [%[x]], #4\n"                                                                                     \
    "    ldr.w %[b], [%[y]], #4\n"                                                                                     \
    "    sxtab16 %[t], %[minus], %[a]\n"                                                                               \
    "    sxtab16 %[a], %[minus], %[a], ror #8\n"                                                                       \
    "    str.w %[t], [%[to], #0]\n"                                                                                    \
    "    str.w %[a], [%[to], #8]\n"                                                                                    \
    "    smlad %[s], %[t], %[ones], %[s]\n"                                                                            \
    "    smlad %[s], %[a], %[ones], %[s]\n"                                                                            \
    "    sxtab16 %[t], %[minus], %[b]\n"                                                                               \
    "    sxtab16 %[b], %[minus], %[b], ror #8\n"                                                                       \
    "    str.w %[t], [%[to], #4]\n"                                                                                    \
    "    str.w %[b], [%[to], #12]\n"                                                                                   \
    "    add.w %[to], %[to], #16\n"                                                                                    \
    "    smlad %[u], %[t], %[ones], %[u]\n"                                                                            \
    "    smlad %[u], %[b], %[ones], %[u]\n"

/* Packs the last one to three elements of a row; returns their sum. */
static inline int32_t ge_dsp_matmul_pack_rest(const int8_t *x, int32_t count, int32_t zero_point, uint32_t *to) {
    const int32_t first = x[0] - zero_point, second = count > 1 ? x[1] - zero_point : 0;
    const int32_t third = count > 2 ? x[2] - zero_point : 0;
    to[0] = ((uint32_t)first & 0xFFFFu) | (uint32_t)third << 16;
    to[2] = (uint32_t)second & 0xFFFFu;
    return first + second + third;
}

/* Packs k bytes of two rows, less their zero point, a word of the first and a word of the second alternately: for each
 * four elements (x0, x2) and (x1, x3), filled up with zeros. Cost: 2.1 cycles per element. */
static inline void ge_dsp_matmul_pack_rows(const int8_t *x, const int8_t *y, int32_t k, int32_t zero_point,
                                           uint32_t *to, int32_t *sums) {
    const uint32_t minus = ((uint32_t)-zero_point & 0xFFFFu) | (uint32_t)-zero_point << 16, ones = 0x00010001u;
    int32_t eights = k >> 3, s = 0, u = 0;
    uint32_t a, b, t;
    __asm__ volatile("    cmp.w %[n], #0\n"
                     "    beq.w 2f\n"
                     "    .balign 4\n"
                     "1:\n" GE_DSP_MATMUL_PACK_FOUR GE_DSP_MATMUL_PACK_FOUR "    subs.w %[n], %[n], #1\n"
                     "    bne.w 1b\n"
                     "2:\n"
                     "    tst.w %[k], #4\n"
                     "    beq.w 3f\n" GE_DSP_MATMUL_PACK_FOUR "3:\n"
                     : [x] "+&r"(x), [y] "+&r"(y), [to] "+&r"(to), [n] "+&r"(eights), [s] "+&r"(s), [u] "+&r"(u),
                       [a] "=&r"(a), [b] "=&r"(b), [t] "=&r"(t)
                     : [minus] "r"(minus), [ones] "r"(ones), [k] "r"(k)
                     : "cc", "memory");
    if ((k & 3) != 0) {
        s += ge_dsp_matmul_pack_rest(x, k & 3, zero_point, to);
        u += ge_dsp_matmul_pack_rest(y, k & 3, zero_point, to + 1);
    }
    sums[0] = s;
    sums[1] = u;
}

/* Writes four elements of two columns as the words of two steps. */
static inline void ge_dsp_matmul_pack_words(uint32_t p, uint32_t q, uint32_t *to) {
    to[0] = ((p & 0x00FF00FFu) | (q & 0x00FF00FFu) << 8) ^ 0x00800080u;
    to[2] = ((p >> 8 & 0x00FF00FFu) | (q & 0xFF00FF00u)) ^ 0x00800080u;
}

/* Where the GE flags are 0 1 0 1, SEL takes every other byte of two words. */
#define GE_DSP_MATMUL_PACK_STEPS(p, q, at)                                                                             \
    "    eor %[" p "], %[" p "], %[signs]\n"                                                                           \
    "    lsl %[t], %[" q "], #8\n"                                                                                     \
    "    lsr %[v], %[" p "], #8\n"                                                                                     \
    "    sel %[" p "], %[" p "], %[t]\n"                                                                               \
    "    sel %[" q "], %[v], %[" q "]\n"                                                                               \
    "    str.w %[" p "], [%[to], #" at "]\n"                                                                           \
    "    str.w %[" q "], [%[to], #" at "+8]\n"

/* Packs two columns of contiguous elements as every second word. Cost: 1.5 cycles per element. What follows the last
 * element is multiplied by zeros of a row. */
static inline void ge_dsp_matmul_pack_two(const int8_t *p, const int8_t *q, int32_t k, uint32_t *to) {
    int32_t eights = k >> 3;
    uint32_t a, b, c, d, t, v;
    if (eights > 0) {
        const uint32_t signs = 0x80808080u;
        __asm__ volatile("    mov %[t], #0x00FF00FF\n"
                         "    uadd8 %[t], %[t], %[t]\n"
                         "    .balign 4\n"
                         "1:\n"
                         "    ldr.w %[c], [%[p], #4]\n"
                         "    ldr.w %[d], [%[q], #4]\n"
                         "    ldr.w %[a], [%[p]], #8\n"
                         "    ldr.w %[b], [%[q]], #8\n" GE_DSP_MATMUL_PACK_STEPS("a", "b", "0")
                             GE_DSP_MATMUL_PACK_STEPS("c", "d", "16") "    subs %[n], %[n], #1\n"
                                                                      "    add.w %[to], %[to], #32\n"
                                                                      "    bne 1b\n"
                         : [p] "+&r"(p), [q] "+&r"(q), [to] "+&r"(to), [n] "+&r"(eights), [a] "=&r"(a), [b] "=&r"(b),
                           [c] "=&r"(c), [d] "=&r"(d), [t] "=&r"(t), [v] "=&r"(v)
                         : [signs] "r"(signs)
                         : "cc", "memory");
    }
    for (int32_t left = k & 7; left > 0; left -= GE_DSP_MATMUL_FOUR) {
        uint32_t word_p = 0, word_q = 0;
        const size_t bytes = left < GE_DSP_MATMUL_FOUR ? (size_t)left : GE_DSP_MATMUL_FOUR;
        memcpy(&word_p, p, bytes);
        memcpy(&word_q, q, bytes);
        ge_dsp_matmul_pack_words(word_p, word_q, to);
        p += GE_DSP_MATMUL_FOUR;
        q += GE_DSP_MATMUL_FOUR;
        to += 4;
    }
}

typedef void ge_dsp_matmul_loop(const ge_dsp_matmul_job *job, const uint32_t *matrix);

/* Multiplies both rows by all columns, at least one; out: addresses of the rows. `all`: the steps of a column in the
 * matrix; loop: ge_dsp_matmul_bytes or ge_dsp_matmul_values. */
__attribute__((always_inline)) static inline void ge_dsp_matmul_columns(ge_dsp_matmul_job *job, const uint32_t *matrix,
                                                                        int32_t columns, int32_t all,
                                                                        int8_t *const *out, ge_dsp_matmul_loop *loop) {
    const int32_t rest = columns & 3;
    int8_t four[2][GE_DSP_MATMUL_FOUR];
    const int32_t few = columns < GE_DSP_MATMUL_FOUR;
    job->out[0] = few ? four[0] : out[0];
    job->out[1] = few ? four[1] : out[1];
    if (rest != 0) {
        job->out_end = job->out[0] + GE_DSP_MATMUL_FOUR;
        loop(job, matrix);
        job->out[0] += rest;
        job->out[1] += rest;
        matrix += 2 * all;
    }
    if (few) {
        memcpy(out[0], four[0], (size_t)columns);
        memcpy(out[1], four[1], (size_t)columns);
        return;
    }
    job->out_end = out[0] + columns;
    loop(job, matrix);
}

/* Sets the requantization that the outputs of both rows share. */
static inline void ge_dsp_matmul_law(ge_dsp_matmul_job *job, int32_t multiplier, int32_t zero_point) {
    job->multiplier[0] = job->multiplier[1] = multiplier;
    job->zero_point = zero_point;
    job->fine = zero_point * 256 + 128;
}

/* Computes the outputs of both rows from the sums of ge_dsp_matmul_sums. */
static inline void ge_dsp_matmul_finish(const ge_dsp_matmul_job *job, const int32_t *sums, int32_t columns,
                                        int8_t *const *out) {
    for (int32_t g = 0; 4 * g < columns; g++) {
        const int32_t first = ge_dsp_matmul_first(columns, g);
        for (int32_t i = 0; i < GE_DSP_MATMUL_FOUR && first + i < columns; i++) {
            for (int32_t r = 0; r < 2; r++) {
                int32_t y;
                __asm__("smmlar %0, %1, %2, %3\n    ssat %0, #8, %0"
                        : "=&r"(y)
                        : "r"(sums[8 * g + 2 * i + r]), "r"(job->multiplier[r]), "r"(job->zero_point));
                out[r][first + i] = (int8_t)y;
            }
        }
    }
}

#endif
