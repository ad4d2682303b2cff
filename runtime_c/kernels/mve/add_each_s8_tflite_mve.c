/* Sum (or difference) of two int8 tensors of one shape, with the bits of TensorFlow Lite Micro: Helium.
 *
 * The operand of the larger scale is multiplied by 1/2, which is exact: no rounding. The other one and the sum are rounded
 * twice: VQRDMULH, then VRSHL of a number that is made less by one where it is negative, so that halves go away from zero.
 * All numbers stay below 2^30. 18 instructions for four elements.
 * Measured, instructions under QEMU: 16,384 elements 77,285.
 *
 *   q0 exact operand, sum   q1 other operand   q2 signs   q3 q4 factors   q5 lowest and q6 highest output   q7 zero point
 */
#include "ge.h"
#include "ge_broadcast.h"
#include "ge_mve.h"
#include "ge_params.h"

typedef struct {
    int32_t other_offset, multiplier, shift; /* 0: the other one less its zero point, times 2^20; its two roundings */
    int32_t exact_offset, sign;              /* 12: of the exact one, times 2^19; of the part of the other one */
    int32_t out_multiplier, out_shift;       /* 20: the two roundings of the sum */
    int32_t other_factor, exact_factor;      /* 28 */
    int32_t lo, hi, zero_point;              /* 36 */
    int32_t count;                           /* 48: elements of a line */
} add_each_s8_tflite_mve_law;

static void add_each_s8_tflite_mve_line(const add_each_s8_tflite_mve_law *law, const int8_t *exact, const int8_t *other,
                                        int8_t *out) {
    __asm__ volatile("ldrd r8, r9, [%[law], #28]\n"
                     "vdup.32 q3, r8\n"
                     "vdup.32 q4, r9\n"
                     "ldrd r8, r9, [%[law], #36]\n"
                     "vdup.32 q5, r8\n"
                     "vdup.32 q6, r9\n"
                     "ldrd r8, lr, [%[law], #44]\n"
                     "vdup.32 q7, r8\n"
                     "ldm %[law], {r5, r6, r8, r9, r10, r11, r12}\n"
                     "wlstp.32 lr, lr, 2f\n"
                     "1:\n"
                     "vldrb.s32 q1, [%[other]], #4\n"
                     "vldrb.s32 q0, [%[exact]], #4\n"
                     "vmlas.s32 q1, q3, r5\n"
                     "vmlas.s32 q0, q4, r9\n"
                     "vqrdmulh.s32 q1, q1, r6\n"
                     "vshr.s32 q2, q1, #31\n"
                     "vadd.i32 q1, q1, q2\n"
                     "vrshl.s32 q1, r8\n"
                     "vmla.s32 q0, q1, r10\n"
                     "vqrdmulh.s32 q0, q0, r11\n"
                     "vshr.s32 q2, q0, #31\n"
                     "vadd.i32 q0, q0, q2\n"
                     "vrshl.s32 q0, r12\n"
                     "vadd.i32 q0, q0, q7\n"
                     "vmax.s32 q0, q0, q5\n"
                     "vmin.s32 q0, q0, q6\n"
                     "vstrb.32 q0, [%[out]], #4\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [exact] "+&l"(exact), [other] "+&l"(other), [out] "+&l"(out)
                     : [law] "r"(law)
                     : "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6",
                       "q7", "memory");
}

/* The words of ge_requantize_each_tflite. */
static add_each_s8_tflite_mve_law add_each_s8_tflite_mve_law_of(const ge_add_each_params *p, const int32_t *w,
                                                                int32_t first_exact) {
    const int32_t zero_exact = first_exact ? p->zero_point_a : p->zero_point_b;
    const int32_t zero_other = first_exact ? p->zero_point_b : p->zero_point_a;
    const int32_t *const v = first_exact ? w + 2 : w;
    const int32_t exact_factor = (first_exact ? 1 : w[6]) * (1 << 19);
    const int32_t other_factor = v[1] < 0 ? 1 << 20 : 1 << 21; /* both exact: there is nothing to round */
    const add_each_s8_tflite_mve_law law = {-zero_other * other_factor,
                                            v[0],
                                            v[1] < 0 ? v[1] : -1,
                                            -zero_exact * exact_factor,
                                            first_exact ? w[6] : 1,
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

static void ge_add_each_s8_tflite_mve(const ge_add_each_params *p, const ge_rows *a, const ge_rows *b,
                                      const int32_t *words, const ge_rows *out, int32_t first_row, int32_t last_row,
                                      void *scratch) {
    const int32_t first_exact = words[0] == 1 << 30 && words[1] == 0;
    const add_each_s8_tflite_mve_law law = add_each_s8_tflite_mve_law_of(p, words, first_exact);
    ge_lines lines = GE_LINES(p, a, b, out, first_row, last_row);
    (void)scratch;
    for (; ge_lines_more(&lines); ge_lines_step(&lines)) {
        add_each_s8_tflite_mve_line(&law, first_exact ? lines.a : lines.b, first_exact ? lines.b : lines.a, lines.out);
    }
}
