/* Fully connected layer: int8 rows with int8 weights, for any law: Helium.
 *
 * It computes four outputs at a time: 16 inputs take one load, and each output's 16 weights one load and one VMLADAVA:
 * 64 MACs in 10 instructions with the LETP, whose tail predication handles the last, incomplete 16 inputs. The stream
 * holds weights in this order, then four biases and the requantization words.
 *
 * Measured, instructions under QEMU: ad01, ten layers of 264,192 MACs, 49,625 (0.19 per MAC).
 *
 *   r0 r2 r4 r6 sums, r1 inputs; q0 inputs, q1 q2 weights; q4 outputs, q0-q3 the law; q5 lowest and q6 highest output, q7
 * zero point
 */

#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_mve.h"
#include "ge_mve_law.h"
#include "ge_params.h"

/* Computes 4 * fours outputs; returns the rest of the stream. */
static const int8_t *fc_s8_mve_fours(const ge_fc_params *p, const int8_t *x, const int8_t *stream, int8_t *out,
                                     int32_t fours) {
    const int32_t numbers[3] = {p->lo, p->hi, p->out_zero_point};
    __asm__ volatile("ldr r0, [%[numbers]]\n"
                     "ldr r1, [%[numbers], #4]\n"
                     "ldr r2, [%[numbers], #8]\n"
                     "vdup.32 q5, r0\n"
                     "vdup.32 q6, r1\n"
                     "vdup.32 q7, r2\n"
                     "mov r1, %[x]\n"
                     "movs r0, #0\n"
                     "movs r2, #0\n"
                     "movs r4, #0\n"
                     "movs r6, #0\n"
                     "1:\n"
                     "dlstp.8 lr, %[count]\n"
                     "2:\n"
                     "vldrb.8 q0, [r1], #16\n"
                     "vldrb.8 q1, [%[stream]], #16\n"
                     "vmladava.s8 r0, q1, q0\n"
                     "vldrb.8 q2, [%[stream]], #16\n"
                     "vmladava.s8 r2, q2, q0\n"
                     "vldrb.8 q1, [%[stream]], #16\n"
                     "vmladava.s8 r4, q1, q0\n"
                     "vldrb.8 q2, [%[stream]], #16\n"
                     "vmladava.s8 r6, q2, q0\n"
                     "letp lr, 2b\n"
                     "vmov q4[2], q4[0], r0, r4\n"
                     "vldrw.u32 q0, [%[stream]], #16\n"
                     "vmov q4[3], q4[1], r2, r6\n" GE_MVE_LAW_LOAD(
                         "%[stream]", "r1") "movs r0, #0\n"
                                            "vadd.i32 q4, q4, q0\n"
                                            "movs r2, #0\n" GE_MVE_LAW_SCALE("q4", "r1") "mov r1, %[x]\n"
                                                                                         "vadd.i32 q4, q4, q7\n"
                                                                                         "movs r4, #0\n"
                                                                                         "vmax.s32 q4, q4, q5\n"
                                                                                         "movs r6, #0\n"
                                                                                         "vmin.s32 q4, q4, q6\n"
                                                                                         "subs %[fours], %[fours], #1\n"
                                                                                         "vstrb.32 q4, [%[out]], #4\n"
                                                                                         "bne 1b\n"
                     : [stream] "+&r"(stream), [out] "+&l"(out), [fours] "+&r"(fours)
                     : [x] "r"(x), [count] "r"((int32_t)p->in_c), [numbers] "r"(numbers)
                     : "r0", "r1", "r2", "r4", "r6", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc",
                       "memory");
    return stream;
}

static void ge_fc_s8_mve(const ge_fc_params *p, const ge_rows *x, const int8_t *stream, const ge_rows *out,
                         int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t rest = p->out_c % 4;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *row = (const int8_t *)ge_row(x, y);
        const int8_t *at = stream;
        int8_t *o = (int8_t *)ge_row(out, y);
        if (p->out_c >= 4) {
            at = fc_s8_mve_fours(p, row, at, o, p->out_c / 4);
        }
        if (rest != 0) {
            int8_t four[4];
            (void)fc_s8_mve_fours(p, row, at, four, 1);
            ge_mve_copy(o + p->out_c - rest, four, rest);
        }
    }
}
