/* Lines of elements, for kernels that compute element by element. */
#ifndef GE_X86_LINE_H
#define GE_X86_LINE_H

#include "ge_x86_portable.h"

/* An operand of a line: contiguous elements, or one element for the whole line. */
typedef struct {
    const int8_t *at;
    int32_t step; /* 1 or 0 */
    int8_t same[16];
} ge_x86_operand;

/* stride: 1, or 0 if the operand has one element. */
static inline GE_X86_INLINE void ge_x86_operand_is(ge_x86_operand *operand, const int8_t *line, int32_t stride) {
    operand->step = stride;
    memset(operand->same, *line, sizeof operand->same);
    operand->at = stride == 0 ? operand->same : line;
}

/* Loads up to 16 elements from number i on. */
static inline GE_X86_INLINE ge_x86_sums ge_x86_operand_at(const ge_x86_operand *operand, int32_t i, int32_t count) {
    return ge_x86_widened(operand->at + i * operand->step, count);
}

/* Computes a line of outputs, clamped and stored by STORE, which is ge_x86_store or, for a law, ge_x86_store_shorts;
 * SIXTEEN(i, count) computes up to 16 of them from number i on. */
#define GE_X86_LINE(o, length, law, STORE, SIXTEEN)                                                                    \
    do {                                                                                                               \
        int32_t at = 0;                                                                                                \
        for (; at + 64 <= (length); at += 64) {                                                                        \
            int8_t *const to[4] = {(o) + at, (o) + at + 16, (o) + at + 32, (o) + at + 48};                             \
            ge_x86_sums four[4];                                                                                       \
            GE_X86_UNROLL                                                                                              \
            for (int32_t k = 0; k < 4; k++) {                                                                          \
                four[k] = SIXTEEN(at + 16 * k, 16);                                                                    \
            }                                                                                                          \
            STORE##4(to, four, 1, law);                                                                                \
        }                                                                                                              \
        for (; at < (length); at += 16) {                                                                              \
            const int32_t count = (length) - at < 16 ? (length) - at : 16;                                             \
            STORE##1((o) + at, SIXTEEN(at, count), count, law);                                                        \
        }                                                                                                              \
    } while (0)

#endif
