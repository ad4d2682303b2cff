/* Product of two computed int8 matrices, each with its own zero point: Helium, two vectors of A and four of B at a
 * time.
 *
 * Vectors are packed in blocks of 16 elements, filled up with zeros: four vectors of B at a time, then a constant for
 * each of them, and two of A. A block of 128 products takes six loads, eight VMLADAVA and two instructions of the loop.
 * The zero points contribute a term from the sum of each vector of B (its constant) and one from that of each vector of
 * A.
 *
 *   r0 r4 r8 r12 sums of the first vector of A, r2 r6 r10 lr of the second, r1 A, r3 B, r5 blocks, r9 groups
 *   r11 job; q0 q1 A, q2-q5 B, q6 multiplier, q7 zero point
 */
#include <stddef.h>
#include <string.h>

#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

#define MATMUL_S8_MVE_BLOCK 16
#define MATMUL_S8_MVE_FOUR 4

/* Job of the loop. */
typedef struct {
    const int8_t *a;
    int32_t blocks; /* of a vector */
    int32_t from_a[2];
    int8_t *out[2];
    int32_t multiplier;
    int32_t zero_point; /* of the output */
} matmul_s8_mve_job;

/* Packs k elements, with `step` bytes from block to block; returns their sum. */
static int32_t matmul_s8_mve_pack(const int8_t *x, int32_t k, int8_t *to, int32_t step) {
    int32_t sum;
    if (k % MATMUL_S8_MVE_BLOCK != 0) {
        memset(to + k / MATMUL_S8_MVE_BLOCK * step, 0, MATMUL_S8_MVE_BLOCK);
    }
    __asm__ volatile("movs r4, #0\n"
                     "wlstp.8 lr, %[k], 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%[x]], #16\n"
                     "vaddva.s8 r4, q0\n"
                     "vstrb.8 q0, [%[to]]\n"
                     "add %[to], %[to], %[step]\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     "mov %[sum], r4\n"
                     : [x] "+&r"(x), [to] "+&r"(to), [sum] "=&r"(sum)
                     : [k] "r"(k), [step] "r"(step)
                     : "r4", "lr", "q0", "cc", "memory");
    return sum;
}

#define MATMUL_S8_MVE_PRODUCTS(instruction)                                                                            \
    "vldrb.8 q0, [r1], #16\n"                                                                                          \
    "vldrb.8 q2, [r3], #16\n" instruction " r0, q0, q2\n"                                                              \
    "vldrb.8 q1, [r1], #16\n" instruction " r2, q1, q2\n"                                                              \
    "vldrb.8 q3, [r3], #16\n" instruction " r4, q0, q3\n" instruction " r6, q1, q3\n"                                  \
    "vldrb.8 q4, [r3], #16\n" instruction " r8, q0, q4\n" instruction " r10, q1, q4\n"                                 \
    "vldrb.8 q5, [r3], #16\n" instruction " r12, q0, q5\n" instruction " lr, q1, q5\n"

/* Multiplies both vectors of A by `groups` groups of four vectors of B. */
static void matmul_s8_mve_groups(matmul_s8_mve_job *job, const int8_t *b, int32_t groups) {
    register const int8_t *r3 __asm__("r3") = b;
    register int32_t r9 __asm__("r9") = groups;
    register matmul_s8_mve_job *r11 __asm__("r11") = job;
    __asm__ volatile("ldrd r0, r2, [r11, #24]\n"
                     "vdup.32 q6, r0\n"
                     "vdup.32 q7, r2\n"
                     "1:\n"
                     "ldrd r1, r5, [r11]\n" MATMUL_S8_MVE_PRODUCTS(
                         "vmladav.s8") "subs r5, r5, #1\n"
                                       "beq 3f\n"
                                       "2:\n" MATMUL_S8_MVE_PRODUCTS("vmladava.s8") "subs r5, r5, #1\n"
                                                                                    "bne 2b\n"
                                                                                    "3:\n"
                                                                                    "vldrw.u32 q2, [r3], #16\n"
                                                                                    "vmov q0[2], q0[0], r0, r8\n"
                                                                                    "vmov q0[3], q0[1], r4, r12\n"
                                                                                    "vmov q1[2], q1[0], r2, r10\n"
                                                                                    "vmov q1[3], q1[1], r6, lr\n"
                                                                                    "ldrd r0, r2, [r11, #8]\n"
                                                                                    "vadd.i32 q0, q0, q2\n"
                                                                                    "vadd.i32 q1, q1, q2\n"
                                                                                    "vadd.i32 q0, q0, r0\n"
                                                                                    "vadd.i32 q1, q1, r2\n"
                                                                                    "ldrd r4, r6, [r11, #16]\n"
                                                                                    "vrmulh.s32 q0, q0, q6\n"
                                                                                    "vrmulh.s32 q1, q1, q6\n"
                                                                                    "vadd.i32 q0, q0, q7\n"
                                                                                    "vadd.i32 q1, q1, q7\n"
                                                                                    "vqmovnb.s32 q0, q0\n"
                                                                                    "vqmovnb.s32 q1, q1\n"
                                                                                    "vqmovnb.s16 q0, q0\n"
                                                                                    "vqmovnb.s16 q1, q1\n"
                                                                                    "vstrb.32 q0, [r4], #4\n"
                                                                                    "vstrb.32 q1, [r6], #4\n"
                                                                                    "strd r4, r6, [r11, #16]\n"
                                                                                    "subs r9, r9, #1\n"
                                                                                    "bne 1b\n"
                     : "+&r"(r3), "+&r"(r9)
                     : "r"(r11)
                     : "r0", "r1", "r2", "r4", "r5", "r6", "r8", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5",
                       "q6", "q7", "cc", "memory");
}

/* Returns the index of the first vector of a group; the first group overlaps the second one where n is not a multiple
 * of four. */
static int32_t matmul_s8_mve_first(const ge_matmul_params *p, int32_t group) {
    const int32_t behind = (p->n + MATMUL_S8_MVE_FOUR - 1) / MATMUL_S8_MVE_FOUR - group;
    const int32_t first = p->n - MATMUL_S8_MVE_FOUR * behind;
    return first > 0 ? first : 0;
}

static void matmul_s8_mve_pack_b(const ge_matmul_params *p, const int8_t *b, int8_t *to) {
    const int32_t blocks = (p->k + MATMUL_S8_MVE_BLOCK - 1) / MATMUL_S8_MVE_BLOCK;
    const int32_t step = MATMUL_S8_MVE_FOUR * MATMUL_S8_MVE_BLOCK;
    for (int32_t g = 0; g < (p->n + MATMUL_S8_MVE_FOUR - 1) / MATMUL_S8_MVE_FOUR; g++) {
        const int32_t first = matmul_s8_mve_first(p, g);
        int32_t constants[MATMUL_S8_MVE_FOUR];
        for (int32_t i = 0; i < MATMUL_S8_MVE_FOUR; i++) {
            const int32_t j = first + i < p->n ? first + i : p->n - 1;
            const int32_t sum = matmul_s8_mve_pack(b + j * p->k, p->k, to + i * MATMUL_S8_MVE_BLOCK, step);
            constants[i] = p->zero_point_a * (p->k * p->zero_point_b - sum);
        }
        to += blocks * step;
        memcpy(to, constants, sizeof constants);
        to += sizeof constants;
    }
}

/* Computes two rows of the output, which may be the same one. */
static void matmul_s8_mve_two(const ge_matmul_params *p, const int8_t *const *a, const int8_t *b, int8_t *rows,
                              int32_t multiplier, int8_t *const *out) {
    const int32_t blocks = (p->k + MATMUL_S8_MVE_BLOCK - 1) / MATMUL_S8_MVE_BLOCK, rest = p->n & 3;
    const int32_t few = p->n < MATMUL_S8_MVE_FOUR;
    int8_t four[2][MATMUL_S8_MVE_FOUR];
    matmul_s8_mve_job job = {rows,       blocks,           {0, 0}, {few ? four[0] : out[0], few ? four[1] : out[1]},
                             multiplier, p->out_zero_point};
    for (int32_t r = 0; r < 2; r++) {
        int8_t *const to = rows + r * MATMUL_S8_MVE_BLOCK;
        job.from_a[r] = -p->zero_point_b * matmul_s8_mve_pack(a[r], p->k, to, 2 * MATMUL_S8_MVE_BLOCK);
    }
    if (rest != 0) {
        matmul_s8_mve_groups(&job, b, 1);
        b += MATMUL_S8_MVE_FOUR * (MATMUL_S8_MVE_BLOCK * blocks + 4);
        job.out[0] = out[0] + rest;
        job.out[1] = out[1] + rest;
    }
    if (few) {
        memcpy(out[0], four[0], (size_t)p->n);
        memcpy(out[1], four[1], (size_t)p->n);
        return;
    }
    matmul_s8_mve_groups(&job, b, p->n / MATMUL_S8_MVE_FOUR);
}

static void ge_matmul_s8_mve(const ge_matmul_params *p, const ge_rows *a, const ge_rows *b, const int32_t *multiplier,
                             const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    int8_t *const rows = (int8_t *)scratch;
    int8_t *const columns = rows + 2 * ((p->k + MATMUL_S8_MVE_BLOCK - 1) / MATMUL_S8_MVE_BLOCK * MATMUL_S8_MVE_BLOCK);
    const int32_t m = p->row_step_b != 0 ? p->m : last_row - first_row;
    for (int32_t y = first_row; y < last_row; y = p->row_step_b != 0 ? y + 1 : last_row) {
        matmul_s8_mve_pack_b(p, (const int8_t *)ge_row(b, y * p->row_step_b), columns);
        for (int32_t i = 0; i < m; i += 2) {
            const int8_t *vectors[2];
            int8_t *outputs[2];
            for (int32_t r = 0; r < 2; r++) {
                const int32_t own = i + r < m ? i + r : i;
                const int32_t row = p->row_step_b != 0 ? y : y + own, vector = p->row_step_b != 0 ? own : 0;
                vectors[r] = (const int8_t *)ge_row(a, row * p->row_step_a) + vector * p->k;
                outputs[r] = (int8_t *)ge_row(out, row) + vector * p->n;
            }
            matmul_s8_mve_two(p, vectors, columns, rows, multiplier[0], outputs);
        }
    }
}
