/* The sum of two vectors with the bits of Glow, for add_each_s8_mve.c. There is no include guard, because each kernel
 * defines the names for its own law. */
#include "ge_params.h"

typedef struct {
    int32_t offset_a, shift_a, offset_b, shift_b, sign; /* negated products of the zero points, -post; sign of b */
    int32_t factor_a, factor_b;                         /* multipliers */
    int32_t lo, hi, zero_point;
    int32_t count; /* elements of a line */
} ge_mve_each_glow;

static inline ge_mve_each_glow ge_mve_each_glow_of(const ge_add_each_params *p, const int32_t *w) {
    const ge_mve_each_glow law = {
        -p->zero_point_a * w[0], -w[2],     -p->zero_point_b * w[3], -w[5], w[6], w[0], w[3], p->lo, p->hi,
        p->out_zero_point,       p->dims[3]};
    return law;
}

#define GE_MVE_EACH ge_mve_each_glow
#define GE_MVE_EACH_SWAPPED(words) 0
#define GE_MVE_EACH_OF(p, words, swapped) ge_mve_each_glow_of(p, words)

/* The law's first parameters, and the registers that hold them. */
#define GE_MVE_EACH_NUMBERS "5"
#define GE_MVE_EACH_REGISTERS "r8, r9, r10, r11, r12"
#define GE_MVE_EACH_CHANGES "r8", "r9", "r10", "r11", "r12", "q0", "q1", "q3", "q4", "q5", "q6", "q7"

#define GE_MVE_EACH_SUM                                                                                                \
    "vmlas.s32 q0, q3, r8\n"                                                                                           \
    "vmlas.s32 q1, q4, r10\n"                                                                                          \
    "vrshl.s32 q0, r9\n"                                                                                               \
    "vrshl.s32 q1, r11\n"                                                                                              \
    "vmla.s32 q0, q1, r12\n"
