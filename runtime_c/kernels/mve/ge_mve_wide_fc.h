/* Fully connected layers of int16 for Helium: four outputs at a time.
 *
 * 8 inputs take one load, and each output's 8 weights one load and one VMLADAVA: 32 MACs in 10 instructions with the
 * LETP, whose tail predication handles the last, incomplete 8 inputs. Requantization has shift 32.
 *
 *   r0 r2 r4 r6 sums, r1 inputs; q0 inputs, q1 q2 weights; q4 outputs; q5 lowest and q6 highest output
 */
#ifndef GE_MVE_WIDE_FC_H
#define GE_MVE_WIDE_FC_H

#include <stddef.h>

#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

/* Values that are the same for all outputs, in the order of their offsets in the loop. They are one operand, as -O0
 * leaves few registers. */
typedef struct {
    const int16_t *x;
    int32_t count;
    int32_t lo, hi;
    int32_t zero_point;
} ge_mve_wide_fc_job;

/* clang-format off */

#define GE_MVE_WIDE_FC_BYTES(q) "vldrb.s16 " q ", [%[stream]], #8\n"
#define GE_MVE_WIDE_FC_HALVES(q) "vldrh.u16 " q ", [%[stream]], #16\n"

/* Computes 4 * fours outputs. */
#define GE_MVE_WIDE_FC_FOURS(load) \
    "ldr r0, [%[job], #8]\n" \
    "ldr r1, [%[job], #12]\n" \
    "vdup.32 q5, r0\n" \
    "vdup.32 q6, r1\n" \
    "1:\n" \
    "ldr r1, [%[job]]\n" \
    "ldr r0, [%[job], #4]\n" \
    "movs r2, #0\n" \
    "movs r4, #0\n" \
    "movs r6, #0\n" \
    "dlstp.16 lr, r0\n" \
    "movs r0, #0\n" \
    "2:\n" \
    "vldrh.u16 q0, [r1], #16\n" \
    load("q1") \
    "vmladava.s16 r0, q1, q0\n" \
    load("q2") \
    "vmladava.s16 r2, q2, q0\n" \
    load("q1") \
    "vmladava.s16 r4, q1, q0\n" \
    load("q2") \
    "vmladava.s16 r6, q2, q0\n" \
    "letp lr, 2b\n" \
    "vldrw.u32 q0, [%[stream]], #16\n" \
    "vldrw.u32 q1, [%[stream]], #16\n" \
    "vmov q4[2], q4[0], r0, r4\n" \
    "vmov q4[3], q4[1], r2, r6\n" \
    "vadd.i32 q4, q4, q0\n" \
    "ldr r0, [%[job], #16]\n" \
    "vrmulh.s32 q4, q4, q1\n" \
    "vadd.i32 q4, q4, r0\n" \
    "vmax.s32 q4, q4, q5\n" \
    "vmin.s32 q4, q4, q6\n" \
    "vstrh.32 q4, [%[out]], #8\n" \
    "subs %[fours], %[fours], #1\n" \
    "bne 1b\n"

#define GE_MVE_WIDE_FC_ASM(load) \
    __asm__ volatile( \
        GE_MVE_WIDE_FC_FOURS(load) \
        : [stream] "+&l"(stream), [out] "+&l"(out), [fours] "+&r"(fours) \
        : [job] "r"(&job) \
        : "r0", "r1", "r2", "r4", "r6", "lr", "q0", "q1", "q2", "q4", "q5", "q6", "cc", "memory")

/* Computes 4 * fours outputs with weights of this many bytes; returns the rest of the stream. */
__attribute__((unused, noinline)) static const int8_t *ge_mve_wide_fc_bytes(const ge_fc_s16_params *p, const int16_t *x,
                                                                            const int8_t *stream, int16_t *out,
                                                                            int32_t fours) {
    const ge_mve_wide_fc_job job = {x, p->in_c, p->lo, p->hi, p->out_zero_point};
    GE_MVE_WIDE_FC_ASM(GE_MVE_WIDE_FC_BYTES);
    return stream;
}

__attribute__((unused, noinline)) static const int8_t *ge_mve_wide_fc_halves(const ge_fc_s16_params *p,
                                                                             const int16_t *x, const int8_t *stream,
                                                                             int16_t *out, int32_t fours) {
    const ge_mve_wide_fc_job job = {x, p->in_c, p->lo, p->hi, p->out_zero_point};
    GE_MVE_WIDE_FC_ASM(GE_MVE_WIDE_FC_HALVES);
    return stream;
}

/* clang-format on */

static inline const int8_t *ge_mve_wide_fc_fours(const ge_fc_s16_params *p, const int16_t *x, const int8_t *stream,
                                                 int32_t bytes, int16_t *out, int32_t fours) {
    return bytes == 1 ? ge_mve_wide_fc_bytes(p, x, stream, out, fours)
                      : ge_mve_wide_fc_halves(p, x, stream, out, fours);
}

/* Computes output rows first..last-1. */
static inline void ge_mve_wide_fc(const ge_fc_s16_params *p, const ge_rows *x, const int8_t *stream, int32_t bytes,
                                  const ge_rows *out, int32_t first, int32_t last) {
    const int32_t rest = p->out_c % 4;
    for (int32_t y = first; y < last; y++) {
        const int16_t *const row = (const int16_t *)ge_row(x, y);
        const int8_t *at = stream;
        int16_t *o = (int16_t *)ge_row(out, y);
        if (p->out_c >= 4) {
            at = ge_mve_wide_fc_fours(p, row, at, bytes, o, p->out_c / 4);
        }
        if (rest != 0) {
            int16_t four[4];
            (void)ge_mve_wide_fc_fours(p, row, at, bytes, four, 1);
            memcpy(o + p->out_c - rest, four, (size_t)rest * 2);
        }
    }
}

#endif
