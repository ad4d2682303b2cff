/* The sum of two vectors with the bits of TensorFlow Lite Micro, for add_each_s8_mve.c.
 *
 * The operand of the larger scale is multiplied by 1/2, which is exact and needs no rounding. It is the second operand
 * here; the operands are swapped where it is the first one of the op. The other operand and the sum are rounded twice:
 * by VQRDMULH, then by VRSHL of a number that is decremented where it is negative, so that halves round away from zero.
 * All numbers stay below 2^30. There is no include guard, because each kernel defines the names for its own law. */
#include "ge_params.h"

typedef struct {
    int32_t other_offset, multiplier, shift; /* other operand: negated zero point times 2^20; its two roundings */
    int32_t exact_offset, sign;        /* exact operand: negated zero point times 2^19; sign of the other's part */
    int32_t out_multiplier, out_shift; /* the sum's two roundings */
    int32_t other_factor, exact_factor;
    int32_t lo, hi, zero_point;
    int32_t count; /* elements of a line */
} ge_mve_each_tflite;

/* Derives the parameters from the words of ge_requantize_each_tflite. */
static inline ge_mve_each_tflite ge_mve_each_tflite_of(const ge_add_each_params *p, const int32_t *w, int32_t swapped) {
    const int32_t zero_exact = swapped ? p->zero_point_a : p->zero_point_b;
    const int32_t zero_other = swapped ? p->zero_point_b : p->zero_point_a;
    const int32_t *const v = swapped ? w + 2 : w;
    const int32_t exact_factor = (swapped ? 1 : w[6]) * (1 << 19);
    const int32_t other_factor = v[1] < 0 ? 1 << 20 : 1 << 21; /* both operands are exact: there is nothing to round */
    const ge_mve_each_tflite law = {-zero_other * other_factor,
                                    v[0],
                                    v[1] < 0 ? v[1] : -1,
                                    -zero_exact * exact_factor,
                                    swapped ? w[6] : 1,
                                    w[4],
                                    w[5],
                                    other_factor,
                                    exact_factor,
                                    p->lo,
                                    p->hi,
                                    p->out_zero_point,
                                    p->dims[3]};
    return law;
}

#define GE_MVE_EACH ge_mve_each_tflite
#define GE_MVE_EACH_SWAPPED(words) ((words)[0] == 1 << 30 && (words)[1] == 0)
#define GE_MVE_EACH_OF(p, words, swapped) ge_mve_each_tflite_of(p, words, swapped)

/* The law's first parameters, and the registers that hold them. */
#define GE_MVE_EACH_NUMBERS "7"
#define GE_MVE_EACH_REGISTERS "r5, r6, r8, r9, r10, r11, r12"
#define GE_MVE_EACH_CHANGES "r5", "r6", "r8", "r9", "r10", "r11", "r12", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7"

#define GE_MVE_EACH_SUM                                                                                                \
    "vmlas.s32 q0, q3, r5\n"                                                                                           \
    "vmlas.s32 q1, q4, r9\n"                                                                                           \
    "vqrdmulh.s32 q0, q0, r6\n"                                                                                        \
    "vshr.s32 q2, q0, #31\n"                                                                                           \
    "vadd.i32 q0, q0, q2\n"                                                                                            \
    "vrshl.s32 q0, r8\n"                                                                                               \
    "vmla.s32 q1, q0, r10\n"                                                                                           \
    "vqrdmulh.s32 q0, q1, r11\n"                                                                                       \
    "vshr.s32 q2, q0, #31\n"                                                                                           \
    "vadd.i32 q0, q0, q2\n"                                                                                            \
    "vrshl.s32 q0, r12\n"
