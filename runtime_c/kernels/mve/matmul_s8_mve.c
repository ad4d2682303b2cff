/* Product of two computed int8 matrices, each with its own zero point: Helium, two vectors of A and eight of B at a
 * time.
 *
 * Vectors are packed by fours, 16 elements of each in turn, filled up with zeros: four vectors of A, and for each eight
 * vectors of B those of the even outputs, those of the odd ones and a constant for each. A pass multiplies two vectors of
 * A by four of B; a block of 128 products takes six loads and eight VMLADAVA. Even and odd outputs meet when they are
 * narrowed to int16. The zero points contribute a term from the sum of each vector of B (its constant) and one from that
 * of each vector of A; a zero point of 0 does not, and then there are no such terms.
 *
 *   r0 r4 r8 r12 sums of the first vector of A, r2 r6 r10 lr of the second, r1 A, r3 B, r5 blocks, r9 groups, r11 job
 *   q0 q1 A, q2 q3 B and later odd outputs, q4 q5 even outputs, q6 multiplier
 */
#include <stddef.h>
#include <string.h>

#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

#define MATMUL_S8_MVE_BLOCKS 4 /* of a vector, 1 to 8; 0: any number, in a loop */
#define MATMUL_S8_MVE_TERM_A 1 /* 0: the zero point of B is 0 */
#define MATMUL_S8_MVE_TERM_B 1 /* 0: the zero point of A is 0 */

#define MATMUL_S8_MVE_BLOCK 16
#define MATMUL_S8_MVE_FOUR 4
#define MATMUL_S8_MVE_EIGHT 8
#define MATMUL_S8_MVE_CONSTANTS (MATMUL_S8_MVE_TERM_B * MATMUL_S8_MVE_EIGHT * 4) /* bytes for eight vectors of B */

/* Job of the loop, which reads the words up to `zero_point` by one LDM. */
typedef struct {
    int32_t from_a[2];
    int8_t *out[2];
    int32_t zero_point; /* of the output */
    const int8_t *a;
    int32_t blocks;
    int32_t multiplier;
} matmul_s8_mve_job;

/* Packs four vectors of k elements; `sums` receives the sum of each. */
static void matmul_s8_mve_pack(const int8_t *const *x, int32_t k, int8_t *to, int32_t *sums) {
    register const int8_t *const *r8 __asm__("r8") = x;
    register int32_t r9 __asm__("r9") = k;
    register int8_t *r10 __asm__("r10") = to;
    register int32_t *r11 __asm__("r11") = sums;
    if (k % MATMUL_S8_MVE_BLOCK != 0) {
        memset(to + k / MATMUL_S8_MVE_BLOCK * MATMUL_S8_MVE_FOUR * MATMUL_S8_MVE_BLOCK, 0,
               (size_t)MATMUL_S8_MVE_FOUR * MATMUL_S8_MVE_BLOCK);
    }
    __asm__ volatile("ldm r8, {r1, r3, r5, r12}\n"
                     "movs r0, #0\n"
                     "movs r2, #0\n"
                     "movs r4, #0\n"
                     "movs r6, #0\n"
                     "wlstp.8 lr, r9, 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [r1], #16\n"
                     "vaddva.s8 r0, q0\n"
                     "vldrb.8 q1, [r3], #16\n"
                     "vaddva.s8 r2, q1\n"
                     "vldrb.8 q2, [r5], #16\n"
                     "vaddva.s8 r4, q2\n"
                     "vldrb.8 q3, [r12], #16\n"
                     "vaddva.s8 r6, q3\n"
                     "vstrb.8 q1, [r10, #16]\n"
                     "vstrb.8 q2, [r10, #32]\n"
                     "vstrb.8 q3, [r10, #48]\n"
                     "vstrb.8 q0, [r10], #64\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     "stm r11, {r0, r2, r4, r6}\n"
                     : "+&r"(r10)
                     : "r"(r8), "r"(r9), "r"(r11)
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r12", "lr", "q0", "q1", "q2", "q3", "cc", "memory");
}

/* clang-format off */

#define MATMUL_S8_MVE_PRODUCTS(instruction, first, second)                                                             \
    "vldrw.u32 q0, [r1" first "\n"                                                                                     \
    "vldrb.8 q2, [r3], #16\n" instruction " r0, q0, q2\n"                                                              \
    "vldrw.u32 q1, [r1, #" second "]\n" instruction " r2, q1, q2\n"                                                    \
    "vldrb.8 q3, [r3], #16\n" instruction " r4, q0, q3\n" instruction " r6, q1, q3\n"                                  \
    "vldrb.8 q2, [r3], #16\n" instruction " r8, q0, q2\n" instruction " r10, q1, q2\n"                                 \
    "vldrb.8 q3, [r3], #16\n" instruction " r12, q0, q3\n" instruction " lr, q1, q3\n"

#define MATMUL_S8_MVE_NEXT(instruction) MATMUL_S8_MVE_PRODUCTS(instruction, "], #64", "-48")
#define MATMUL_S8_MVE_AT(instruction) MATMUL_S8_MVE_PRODUCTS(instruction, ", #ge_at]", "ge_at + 16")

/* The sums of two vectors of A and four of B; without a loop, r1 stays where it is. */
#define MATMUL_S8_MVE_PASS(first, second)                                                                              \
    ".if %c[blocks] == 0\n"                                                                                            \
    "ldrd r1, r5, [r11, #20]\n"                                                                                        \
    MATMUL_S8_MVE_NEXT("vmladav.s8")                                                                                   \
    "b 3f\n"                                                                                                           \
    "2:\n"                                                                                                             \
    MATMUL_S8_MVE_NEXT("vmladava.s8")                                                                                  \
    "3:\n"                                                                                                             \
    "subs r5, r5, #1\n"                                                                                                \
    "bne 2b\n"                                                                                                         \
    ".else\n"                                                                                                          \
    ".set ge_at, 0\n"                                                                                                  \
    MATMUL_S8_MVE_AT("vmladav.s8")                                                                                     \
    ".rept %c[blocks] - 1\n"                                                                                           \
    ".set ge_at, ge_at + 64\n"                                                                                         \
    MATMUL_S8_MVE_AT("vmladava.s8")                                                                                    \
    ".endr\n"                                                                                                          \
    ".endif\n"                                                                                                         \
    "vmov " first "[2], " first "[0], r0, r8\n"                                                                        \
    "vmov " first "[3], " first "[1], r4, r12\n"                                                                       \
    "vmov " second "[2], " second "[0], r2, r10\n"                                                                     \
    "vmov " second "[3], " second "[1], r6, lr\n"

/* Multiplies both vectors of A by `groups` groups of eight vectors of B. */
static void matmul_s8_mve_groups(matmul_s8_mve_job *job, const int8_t *b, int32_t groups) {
    register const int8_t *r3 __asm__("r3") = b;
    register int32_t r9 __asm__("r9") = groups;
    register matmul_s8_mve_job *r11 __asm__("r11") = job;
    __asm__ volatile("ldr r0, [r11, #28]\n"
                     "ldr r1, [r11, #20]\n"
                     "vdup.32 q6, r0\n"
                     "1:\n"
                     MATMUL_S8_MVE_PASS("q4", "q5")
                     MATMUL_S8_MVE_PASS("q2", "q3")
                     "ldm r11, {r0, r2, r4, r6, r8}\n"
                     ".if %c[term_b]\n"
                     "vldrw.u32 q0, [r3], #16\n"
                     "vldrw.u32 q1, [r3], #16\n"
                     "vadd.i32 q4, q4, q0\n"
                     "vadd.i32 q5, q5, q0\n"
                     "vadd.i32 q2, q2, q1\n"
                     "vadd.i32 q3, q3, q1\n"
                     ".endif\n"
                     ".if %c[term_a]\n"
                     "vadd.i32 q4, q4, r0\n"
                     "vadd.i32 q5, q5, r2\n"
                     "vadd.i32 q2, q2, r0\n"
                     "vadd.i32 q3, q3, r2\n"
                     ".endif\n"
                     "vrmulh.s32 q4, q4, q6\n"
                     "vrmulh.s32 q5, q5, q6\n"
                     "vrmulh.s32 q2, q2, q6\n"
                     "vrmulh.s32 q3, q3, q6\n"
                     "vqmovnb.s32 q4, q4\n"
                     "vqmovnb.s32 q5, q5\n"
                     "vqmovnt.s32 q4, q2\n"
                     "vqmovnt.s32 q5, q3\n"
                     "vqadd.s16 q4, q4, r8\n"
                     "vqadd.s16 q5, q5, r8\n"
                     "vqmovnb.s16 q4, q4\n"
                     "vqmovnb.s16 q5, q5\n"
                     "vstrb.16 q4, [r4], #8\n"
                     "vstrb.16 q5, [r6], #8\n"
                     "strd r4, r6, [r11, #8]\n"
                     "subs r9, r9, #1\n"
                     "bne.w 1b\n"
                     : "+&r"(r3), "+&r"(r9)
                     : "r"(r11), [blocks] "i"(MATMUL_S8_MVE_BLOCKS), [term_a] "i"(MATMUL_S8_MVE_TERM_A),
                       [term_b] "i"(MATMUL_S8_MVE_TERM_B)
                     : "r0", "r1", "r2", "r4", "r5", "r6", "r8", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5",
                       "q6", "cc", "memory");
}

/* clang-format on */

static inline int32_t matmul_s8_mve_blocks(const ge_matmul_params *p) {
    return MATMUL_S8_MVE_BLOCKS != 0 ? MATMUL_S8_MVE_BLOCKS : (p->k + MATMUL_S8_MVE_BLOCK - 1) / MATMUL_S8_MVE_BLOCK;
}

/* Packs the eight vectors of B from `first` on, the last one again for those that B lacks; returns the next place. */
static int8_t *matmul_s8_mve_pack_eight(const ge_matmul_params *p, const int8_t *b, int32_t first, int8_t *to) {
    const int32_t four = matmul_s8_mve_blocks(p) * MATMUL_S8_MVE_FOUR * MATMUL_S8_MVE_BLOCK;
    int8_t *const end = to + 2 * four;
    for (int32_t odd = 0; odd < 2; odd++) {
        const int8_t *vectors[MATMUL_S8_MVE_FOUR];
        int32_t unused[MATMUL_S8_MVE_FOUR];
        int32_t *const sums = MATMUL_S8_MVE_TERM_B != 0 ? (int32_t *)(void *)end + odd * MATMUL_S8_MVE_FOUR : unused;
        for (int32_t i = 0; i < MATMUL_S8_MVE_FOUR; i++) {
            const int32_t j = first + 2 * i + odd;
            vectors[i] = b + (j < p->n ? j : p->n - 1) * p->k;
        }
        matmul_s8_mve_pack(vectors, p->k, to + odd * four, sums);
        for (int32_t i = 0; MATMUL_S8_MVE_TERM_B != 0 && i < MATMUL_S8_MVE_FOUR; i++) {
            sums[i] = p->zero_point_a * (p->k * p->zero_point_b - sums[i]);
        }
    }
    return end + MATMUL_S8_MVE_CONSTANTS;
}

/* Packs B by eights; where n is not a multiple of eight, the first group overlaps the second one. */
static void matmul_s8_mve_pack_b(const ge_matmul_params *p, const int8_t *b, int8_t *to) {
    const int32_t rest = p->n % MATMUL_S8_MVE_EIGHT;
    if (rest != 0) {
        to = matmul_s8_mve_pack_eight(p, b, 0, to);
    }
    for (int32_t first = rest; first < p->n; first += MATMUL_S8_MVE_EIGHT) {
        to = matmul_s8_mve_pack_eight(p, b, first, to);
    }
}

/* Computes two rows of the output, which may be the same one. */
static void matmul_s8_mve_two(const ge_matmul_params *p, matmul_s8_mve_job *job, const int8_t *b, int8_t *const *out) {
    const int32_t rest = p->n % MATMUL_S8_MVE_EIGHT, few = p->n < MATMUL_S8_MVE_EIGHT;
    int8_t eight[2][MATMUL_S8_MVE_EIGHT];
    job->out[0] = few ? eight[0] : out[0];
    job->out[1] = few ? eight[1] : out[1];
    if (rest != 0) {
        matmul_s8_mve_groups(job, b, 1);
        b += MATMUL_S8_MVE_EIGHT * MATMUL_S8_MVE_BLOCK * matmul_s8_mve_blocks(p) + MATMUL_S8_MVE_CONSTANTS;
        job->out[0] = out[0] + rest;
        job->out[1] = out[1] + rest;
    }
    if (few) {
        memcpy(out[0], eight[0], (size_t)p->n);
        memcpy(out[1], eight[1], (size_t)p->n);
        return;
    }
    matmul_s8_mve_groups(job, b, p->n / MATMUL_S8_MVE_EIGHT);
}

/* Finds the four vectors from `first` on, the last one of m again for those that do not exist: of row y * row_step, or
 * one for each row from there on if `by_rows` is set. */
static inline void matmul_s8_mve_four(const ge_rows *t, int32_t y, int32_t row_step, int32_t by_rows, int32_t size,
                                      int32_t first, int32_t m, int8_t **to) {
    const int32_t step = by_rows != 0 ? t->stride * row_step : size;
    if ((by_rows == 0 || t->slots == NULL) && m - first >= MATMUL_S8_MVE_FOUR) {
        int8_t *const from = (int8_t *)ge_row(t, y * row_step) + first * step;
        to[0] = from;
        to[1] = from + step;
        to[2] = from + 2 * step;
        to[3] = from + 3 * step;
        return;
    }
    for (int32_t r = 0; r < MATMUL_S8_MVE_FOUR; r++) {
        const int32_t own = first + r < m ? first + r : m - 1;
        to[r] = (int8_t *)ge_row(t, (by_rows != 0 ? y + own : y) * row_step) + (by_rows != 0 ? 0 : own * size);
    }
}

/* Computes rows of the output from m vectors of A, which are vectors of row y, or of the m rows from y on. */
static void matmul_s8_mve_matrix(const ge_matmul_params *p, const ge_rows *a, const int8_t *b, const ge_rows *out,
                                 int32_t y, int32_t m, matmul_s8_mve_job *job, int8_t *rows) {
    const int32_t by_rows = p->row_step_b == 0;
    for (int32_t i = 0; i < m; i += MATMUL_S8_MVE_FOUR) {
        int8_t *vectors[MATMUL_S8_MVE_FOUR];
        int32_t sums[MATMUL_S8_MVE_FOUR];
        matmul_s8_mve_four(a, y, p->row_step_a, by_rows, p->k, i, m, vectors);
        matmul_s8_mve_pack((const int8_t *const *)vectors, p->k, rows, sums);
        matmul_s8_mve_four(out, y, 1, by_rows, p->n, i, m, vectors);
        for (int32_t r = 0; r < MATMUL_S8_MVE_FOUR && i + r < m; r += 2) {
            job->a = rows + r * MATMUL_S8_MVE_BLOCK;
            job->from_a[0] = -p->zero_point_b * sums[r];
            job->from_a[1] = -p->zero_point_b * sums[r + 1];
            matmul_s8_mve_two(p, job, b, vectors + r);
        }
    }
}

static void ge_matmul_s8_mve(const ge_matmul_params *p, const ge_rows *a, const ge_rows *b, const int32_t *multiplier,
                             const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    int8_t *const rows = (int8_t *)scratch;
    int8_t *const columns = rows + MATMUL_S8_MVE_FOUR * MATMUL_S8_MVE_BLOCK * matmul_s8_mve_blocks(p);
    matmul_s8_mve_job job = {{0, 0}, {NULL, NULL}, p->out_zero_point, rows, matmul_s8_mve_blocks(p), multiplier[0]};
    const int32_t m = p->row_step_b != 0 ? p->m : last_row - first_row;
    for (int32_t y = first_row; y < last_row; y = p->row_step_b != 0 ? y + 1 : last_row) {
        matmul_s8_mve_pack_b(p, (const int8_t *)ge_row(b, y * p->row_step_b), columns);
        matmul_s8_mve_matrix(p, a, columns, out, y, m, &job, rows);
    }
}
