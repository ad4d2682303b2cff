/* Sum (or difference) of two int8 tensors of one shape, each operand rescaled and rounded on its own: Helium.
 *
 * One source serves the laws of other engines: ge_mve_each_law_<law>.h defines how two vectors become their sum, and
 * which constants that takes (kernels/shared/add_each.py checks them). Measured, instructions under QEMU for 16,384
 * elements: 52,442 with the bits of Glow (12 instructions for four elements), 77,285 with those of TensorFlow Lite
 * Micro (18).
 *
 *   q0 q1 operands   q3 q4 their factors   q5 lowest and q6 highest output   q7 zero point */
#include "ge.h"
#include "ge_broadcast.h"
#include "ge_mve.h"
#include "ge_mve_each_law_tflite.h"
#include "ge_params.h"

static void add_each_s8_mve_line(const GE_MVE_EACH *law, const int8_t *x, const int8_t *y, int8_t *out) {
    __asm__ volatile("ldrd r8, r9, [%[law], #4*" GE_MVE_EACH_NUMBERS "]\n"
                     "vdup.32 q3, r8\n"
                     "vdup.32 q4, r9\n"
                     "ldrd r8, r9, [%[law], #4*" GE_MVE_EACH_NUMBERS "+8]\n"
                     "vdup.32 q5, r8\n"
                     "vdup.32 q6, r9\n"
                     "ldrd r8, lr, [%[law], #4*" GE_MVE_EACH_NUMBERS "+16]\n"
                     "vdup.32 q7, r8\n"
                     "ldm %[law], {" GE_MVE_EACH_REGISTERS "}\n"
                     "wlstp.32 lr, lr, 2f\n"
                     "1:\n"
                     "vldrb.s32 q0, [%[x]], #4\n"
                     "vldrb.s32 q1, [%[y]], #4\n" GE_MVE_EACH_SUM "vadd.i32 q0, q0, q7\n"
                     "vmax.s32 q0, q0, q5\n"
                     "vmin.s32 q0, q0, q6\n"
                     "vstrb.32 q0, [%[out]], #4\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [x] "+&l"(x), [y] "+&l"(y), [out] "+&l"(out)
                     : [law] "r"(law)
                     : GE_MVE_EACH_CHANGES, "lr", "memory");
}

static void ge_add_each_s8_mve(const ge_add_each_params *p, const ge_rows *a, const ge_rows *b, const int32_t *words,
                               const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t swapped = GE_MVE_EACH_SWAPPED(words);
    const GE_MVE_EACH law = GE_MVE_EACH_OF(p, words, swapped);
    ge_lines lines = GE_LINES(p, a, b, out, first_row, last_row);
    (void)scratch;
    for (; ge_lines_more(&lines); ge_lines_step(&lines)) {
        add_each_s8_mve_line(&law, swapped ? lines.b : lines.a, swapped ? lines.a : lines.b, lines.out);
    }
}
