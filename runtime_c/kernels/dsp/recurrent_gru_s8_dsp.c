/* int8 GRU for Cortex-M4, M7 and M33 whose product with the state is computed before the reset gate: two units at a
 * time, which are six rows in three pairs.
 *
 * The stream of two units holds start values S B of (z z'), (r r') and (n n'), three words for each pair of k of the
 * input, six multipliers, start values of (n n') of the state, three words for each pair of k of the state, six
 * multipliers. Cost: 28 cycles for 24 products. An odd last unit is paired with a unit of zeros. scratch: states as
 * int16, input and hidden state as int16, the hidden state. The other start values of the products of the state are
 * 0. */
#include "ge.h"
#include "ge_gates.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_gates.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

#define RECURRENT_GRU_S8_DSP_X_TURNS 1
#define RECURRENT_GRU_S8_DSP_X_UNROLL 1
#define RECURRENT_GRU_S8_DSP_H_TURNS 1
#define RECURRENT_GRU_S8_DSP_H_UNROLL 1
#define RECURRENT_GRU_S8_DSP_EXPONENT 0

/* clang-format off */

/* Sums of z in r2 r3, of r in r4 r5, of n in r10 r11; x in r6 r8, weights in r9 r12 lr. */
#define RECURRENT_GRU_S8_DSP_THREE(x) \
    "    ldr.w r12, [r0, #4]\n" \
    "    ldr.w lr, [r0, #8]\n" \
    "    ldr.w r9, [r0], #12\n" \
    "    smlad r2, r9, " x ", r2\n" \
    "    smlad r4, r12, " x ", r4\n" \
    "    smlad r10, lr, " x ", r10\n" \
    "    sxtb16 r9, r9\n" \
    "    sxtb16 r12, r12\n" \
    "    sxtb16 lr, lr\n" \
    "    smlad r3, r9, " x ", r3\n" \
    "    smlad r5, r12, " x ", r5\n" \
    "    smlad r11, lr, " x ", r11\n"

#define RECURRENT_GRU_S8_DSP_PRODUCTS(turns, unroll) \
    "    .if %c[" turns "] > 1\n" \
    "    mov r7, %[" turns "]\n" \
    "    .endif\n" \
    "    .balign 4\n" \
    "3:\n" \
    "    .rept %c[" unroll "]\n" \
    "    ldr.w r8, [r1, #4]\n" \
    "    ldr.w r6, [r1], #8\n" \
    RECURRENT_GRU_S8_DSP_THREE("r6") \
    RECURRENT_GRU_S8_DSP_THREE("r8") \
    "    .endr\n" \
    "    .if %c[" turns "] > 1\n" \
    "    subs.w r7, r7, #1\n" \
    "    bne.w 3b\n" \
    "    .endif\n" \
    "    sub r2, r2, r3\n" \
    "    lsl r3, r3, #8\n" \
    "    sub r4, r4, r5\n" \
    "    lsl r5, r5, #8\n" \
    "    sub r10, r10, r11\n" \
    "    lsl r11, r11, #8\n" \
    "    ldr.w r12, [r0, #4]\n" \
    "    ldr.w lr, [r0, #8]\n" \
    "    ldr.w r6, [r0, #12]\n" \
    "    ldr.w r9, [r0], #16\n"

/* r0 stream, r1 int16 vectors, r7 iterations and later the mask of a table's line. */
__attribute__((noinline)) static void recurrent_gru_s8_dsp_units(const ge_dsp_gates_job *job) {
    register const ge_dsp_gates_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_ENTER(recurrent_gru_s8_dsp_units, 0, "r1-r6, r8, r9")
        "    mov r0, r2\n"
        "    .balign 4\n"
        "1:\n" /* two units */
        "    ldr.w r1, [sp, #4*0]\n"
        "    ldr.w r3, [r0, #4]\n"
        "    ldr.w r4, [r0, #8]\n"
        "    ldr.w r5, [r0, #12]\n"
        "    ldr.w r10, [r0, #16]\n"
        "    ldr.w r11, [r0, #20]\n"
        "    ldr.w r2, [r0], #24\n"
        RECURRENT_GRU_S8_DSP_PRODUCTS("x_turns", "x_unroll")
        "    ldr.w r8, [r0, #4]\n"
        "    ldr.w r7, [r0], #8\n"
        "    smmulr r2, r2, r9\n"
        "    smmulr r3, r3, r12\n"
        "    smmulr r4, r4, lr\n"
        "    smmulr r5, r5, r6\n"
        "    smmulr r10, r10, r7\n"
        "    smmulr r11, r11, r8\n"
        "    ssat r2, #16, r2\n"
        "    ssat r3, #16, r3\n"
        "    ssat r4, #16, r4\n"
        "    ssat r5, #16, r5\n"
        "    ssat r10, #16, r10\n"
        "    ssat r11, #16, r11\n"
        "    strd r2, r3, [sp, #4*8]\n"
        "    strd r4, r5, [sp, #4*10]\n"
        "    strd r10, r11, [sp, #4*12]\n"
        "    ldr.w r11, [r0, #4]\n"
        "    ldr.w r10, [r0], #8\n"
        "    mov r2, #0\n"
        "    mov r3, #0\n"
        "    mov r4, #0\n"
        "    mov r5, #0\n"
        RECURRENT_GRU_S8_DSP_PRODUCTS("h_turns", "h_unroll")
        "    ldrd r7, r8, [sp, #4*8]\n"
        "    smmlar r2, r2, r9, r7\n"
        "    smmlar r3, r3, r12, r8\n"
        "    ldrd r7, r8, [sp, #4*10]\n"
        "    smmlar r4, r4, lr, r7\n"
        "    smmlar r5, r5, r6, r8\n"
        "    ldr.w r8, [r0, #4]\n"
        "    ldr.w r9, [r0], #8\n"
        "    ldr.w r12, [sp, #4*2]\n"
        "    smmulr r10, r10, r9\n"
        "    smmulr r11, r11, r8\n"
        "    mov r7, #0\n"
        "    ssat r10, #16, r10\n"
        "    ssat r11, #16, r11\n"
        GE_DSP_GATES_SCALED("r2")
        GE_DSP_GATES_SCALED("r3")
        GE_DSP_GATES_SCALED("r4")
        GE_DSP_GATES_SCALED("r5")
        GE_DSP_GATES_INDEX("r2", "r6")
        GE_DSP_GATES_INDEX("r3", "r8")
        GE_DSP_GATES_INDEX("r4", "r9")
        GE_DSP_GATES_INDEX("r5", "lr")
        GE_DSP_GATES_WORD("r6")
        GE_DSP_GATES_WORD("r8")
        GE_DSP_GATES_WORD("r9")
        GE_DSP_GATES_WORD("lr")
        GE_DSP_GATES_LINE("r2", "r6")
        GE_DSP_GATES_LINE("r3", "r8")
        GE_DSP_GATES_LINE("r4", "r9")
        GE_DSP_GATES_LINE("r5", "lr")
        "    mov r6, #0x40000000\n"
        "    mov r8, #0x4000\n"
        GE_DSP_GATES_SIGMOID("r2", "r6")
        GE_DSP_GATES_SIGMOID("r3", "r6")
        GE_DSP_GATES_SIGMOID("r4", "r6")
        GE_DSP_GATES_SIGMOID("r5", "r6")
        "    ldrd r1, r9, [sp, #4*12]\n"
        "    smlatb r4, r4, r10, r8\n"
        "    smlatb r5, r5, r11, r8\n"
        "    add.w r4, r1, r4, asr #15\n"
        "    add.w r5, r9, r5, asr #15\n"
        GE_DSP_GATES_SCALED("r4")
        GE_DSP_GATES_SCALED("r5")
        GE_DSP_GATES_INDEX("r4", "r1")
        GE_DSP_GATES_INDEX("r5", "r9")
        GE_DSP_GATES_WORD("r1")
        GE_DSP_GATES_WORD("r9")
        "    ldrd r6, lr, [sp, #4*3]\n" /* states, hidden */
        "    ldr.w r12, [r6]\n"
        GE_DSP_GATES_LINE("r4", "r1")
        GE_DSP_GATES_LINE("r5", "r9")
        "    asr r4, r4, #16\n"
        "    asr r5, r5, #16\n"
        "    asr r2, r2, #16\n"
        "    asr r3, r3, #16\n"
        "    sxth r10, r12\n"
        "    sub r10, r10, r4\n"
        "    rsb r11, r5, r12, asr #16\n"
        "    mla r10, r2, r10, r8\n"
        "    mla r11, r3, r11, r8\n"
        "    add.w r4, r4, r10, asr #15\n"
        "    add.w r5, r5, r11, asr #15\n"
        "    pkhbt r12, r4, r5, lsl #16\n"
        "    lsl r4, r4, #8\n"
        "    lsl r5, r5, #8\n"
        "    ldrd r9, r10, [sp, #4*6]\n" /* multiplier, zero point */
        "    ldr.w r11, [sp, #4*5]\n"
        "    str.w r12, [r6], #4\n"
        "    smmlar r4, r4, r9, r10\n"
        "    smmlar r5, r5, r9, r10\n"
        "    ssat r4, #8, r4\n"
        "    ssat r5, #8, r5\n"
        "    strb r4, [lr], #1\n"
        "    strb r5, [lr], #1\n"
        "    cmp lr, r11\n"
        "    strd r6, lr, [sp, #4*3]\n"
        "    bne.w 1b\n"
        GE_DSP_LEAVE
        : "+r"(r0)
        : [x_turns] "i"(RECURRENT_GRU_S8_DSP_X_TURNS), [x_unroll] "i"(RECURRENT_GRU_S8_DSP_X_UNROLL),
          [h_turns] "i"(RECURRENT_GRU_S8_DSP_H_TURNS), [h_unroll] "i"(RECURRENT_GRU_S8_DSP_H_UNROLL),
          [exponent] "i"(RECURRENT_GRU_S8_DSP_EXPONENT)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

#define RECURRENT_GRU_S8_DSP_X_WORDS (2 * RECURRENT_GRU_S8_DSP_X_TURNS * RECURRENT_GRU_S8_DSP_X_UNROLL)
#define RECURRENT_GRU_S8_DSP_H_WORDS (2 * RECURRENT_GRU_S8_DSP_H_TURNS * RECURRENT_GRU_S8_DSP_H_UNROLL)

static void ge_recurrent_gru_s8_dsp(const ge_recurrent_params *p, const ge_rows *x, const ge_rows *h0,
                                    const ge_rows *c0, const uint32_t *stream, const int32_t *tables,
                                    const int32_t *lengths, const ge_rows *out, int32_t first_row, int32_t last_row,
                                    void *scratch) {
    const int32_t units = (p->units + 1) & ~1;
    int16_t *const states = (int16_t *)scratch;
    uint32_t *const vectors = (uint32_t *)(void *)(states + units);
    int8_t *const hidden = (int8_t *)(vectors + RECURRENT_GRU_S8_DSP_X_WORDS + RECURRENT_GRU_S8_DSP_H_WORDS);
    const ge_dsp_gates_job job = {vectors, stream,         tables + 512,    states,
                                  hidden,  hidden + units, p->multiplier_h, p->zero_point};
    if (first_row < last_row) {
        ge_dsp_gates_run(p, &job, vectors, x, h0, c0, lengths, out, RECURRENT_GRU_S8_DSP_X_WORDS,
                         RECURRENT_GRU_S8_DSP_H_WORDS, recurrent_gru_s8_dsp_units);
    }
}
