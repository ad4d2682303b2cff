/* Depthwise convolution 3x3, stride 1 or 2, of int8 [H, W, C] for Cortex-M4, M7 and M33.
 *
 * ge_dsp_depthwise.h says how inputs and weights lie. One channel of one line at a time, two outputs in a step:
 * r0 pixels, r1 out, r2-r7 (w0, w1) (w1, w2) of the three slots, r8 r9 the two outputs, r10 r11 the next two,
 * r12 lr a word of pixels. Every word is loaded once: it ends two outputs and begins the next two.
 * 29 cycles for 2 outputs, about 40 for each channel of a line besides; 2.5 for each input that is packed.
 * With stride 2: r8 r9 an output and the next, r10 r11 r12 words, lr the multiplier; 16 cycles for an output.
 *
 * scratch: [weights of four channels][three lines]. Lines are columns (DOWN) where rows are short. */
#include "ge.h"
#include "ge_dsp_depthwise.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

#define DEPTHWISE3X3_S8_DSP_STEP 8 /* bytes from output to output along a line; at most 1023 */
#define DEPTHWISE3X3_S8_DSP_DOWN 0 /* 1: lines are columns */
#define DEPTHWISE3X3_S8_DSP_STRIDE 1
#define DEPTHWISE3X3_S8_DSP_LAW 0 /* see ge_isa_dsp_law.h: that of ONNX would need more registers */

/* Words of a channel that the law has besides a multiplier. */
#define DEPTHWISE3X3_S8_DSP_MORE (DEPTHWISE3X3_S8_DSP_LAW == 0 ? 0 : 2)

/* In the order of registers s0-s7. */
typedef struct {
    const uint32_t *ring;
    int8_t *out;
    const uint32_t *taps;
    int32_t turn; /* bytes into the weights: which tap row the first slot meets */
    int32_t fours;
    int32_t rest; /* outputs behind the last four, 0..3 */
    int32_t zero_point;
    int32_t channels;
} depthwise3x3_s8_dsp_job;

#define DEPTHWISE3X3_S8_DSP_TEXT(x) #x
#define DEPTHWISE3X3_S8_DSP_AT(n, x) "#" #n "*" DEPTHWISE3X3_S8_DSP_TEXT(x)

/* One word of pixels of slot s at its offset: e o end, ne no begin. */
#define DEPTHWISE3X3_S8_DSP_WORD(x, w01, w12, e, o, ne, no)                                                            \
    "    smlabt " e ", " x ", " w12 ", " e "\n"                                                                        \
    "    smlad " o ", " x ", " w12 ", " o "\n"                                                                         \
    "    smlad " ne ", " x ", " w01 ", " ne "\n"                                                                       \
    "    smlatb " no ", " x ", " w01 ", " no "\n"

/* clang-format off */

#define DEPTHWISE3X3_S8_DSP_STEP2(e, o, ne, no)                                                                        \
    "    ldr.w r12, [r0, #48]!\n"                                                                                      \
    "    ldr.w lr, [r0, #16]\n"                                                                                        \
    "    vmov " ne ", s8\n"                                                                                            \
    "    mov " no ", " ne "\n"                                                                                         \
    DEPTHWISE3X3_S8_DSP_WORD("r12", "r2", "r3", e, o, ne, no)                                                          \
    "    ldr.w r12, [r0, #32]\n"                                                                                       \
    DEPTHWISE3X3_S8_DSP_WORD("lr", "r4", "r5", e, o, ne, no)                                                           \
    DEPTHWISE3X3_S8_DSP_WORD("r12", "r6", "r7", e, o, ne, no)                                                          \
    "    .if %c[law] == 0\n"                                                                                           \
    "    vmov r12, s9\n"                                                                                               \
    "    vmov lr, s6\n"                                                                                                \
    "    smmlar " e ", " e ", r12, lr\n"                                                                               \
    "    smmlar " o ", " o ", r12, lr\n"                                                                               \
    "    .endif\n"                                                                                                     \
    GE_DSP_LAW_KEPT_TWO(DEPTHWISE3X3_S8_DSP_LAW, e, o, "r12", "lr", "s9", "s11", "s12")                                \
    "    ssat " e ", #8, " e "\n"                                                                                      \
    "    ssat " o ", #8, " o "\n"

/* Four channels of one line, stride 1. */
__attribute__((unused, noinline)) static void depthwise3x3_s8_dsp_line(const depthwise3x3_s8_dsp_job *job) {
    register const depthwise3x3_s8_dsp_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        "    vldmia r0, {s0-s7}\n"
        "    vmov s15, r7\n"
        "1:\n" /* a channel */
        "    vmov r12, s2\n"
        "    vmov lr, s3\n"
        "    vmov r0, s0\n"
        "    vmov r1, s1\n"
        "    vldr s8, [r12]\n"
        "    vldr s9, [r12, #4]\n"
        "    add lr, lr, r12\n"
        "    .if %c[law]\n"
        "    vldr s11, [r12, #48]\n"
        "    vldr s12, [r12, #52]\n"
        "    add r12, r12, #8\n"
        "    .endif\n"
        "    add r12, r12, #48\n"
        "    vmov s2, r12\n"
        "    ldr.w r2, [lr, #8]\n"
        "    ldr.w r3, [lr, #12]\n"
        "    ldr.w r4, [lr, #16]\n"
        "    ldr.w r5, [lr, #20]\n"
        "    ldr.w r6, [lr, #24]\n"
        "    ldr.w r7, [lr, #28]\n"
        "    ldr.w r12, [r0]\n"
        "    ldr.w lr, [r0, #16]\n"
        "    ldr.w r10, [r0, #32]\n"
        "    vmov r8, s8\n"
        "    mov r9, r8\n"
        "    smlad r8, r12, r2, r8\n"
        "    smlatb r9, r12, r2, r9\n"
        "    smlad r8, lr, r4, r8\n"
        "    smlatb r9, lr, r4, r9\n"
        "    smlad r8, r10, r6, r8\n"
        "    smlatb r9, r10, r6, r9\n"
        "    vmov lr, s4\n"
        "    vmov s10, lr\n"
        "    cmp lr, #0\n"
        "    beq.w 3f\n"
        "    .balign 4\n"
        "2:\n" /* four outputs */
        DEPTHWISE3X3_S8_DSP_STEP2("r8", "r9", "r10", "r11")
        "    strb r8, [r1]\n"
        "    strb r9, [r1, " DEPTHWISE3X3_S8_DSP_AT(1, DEPTHWISE3X3_S8_DSP_STEP) "]\n"
        DEPTHWISE3X3_S8_DSP_STEP2("r10", "r11", "r8", "r9")
        "    vmov lr, s10\n"
        "    strb r10, [r1, " DEPTHWISE3X3_S8_DSP_AT(2, DEPTHWISE3X3_S8_DSP_STEP) "]\n"
        "    strb r11, [r1, " DEPTHWISE3X3_S8_DSP_AT(3, DEPTHWISE3X3_S8_DSP_STEP) "]\n"
        "    subs lr, lr, #1\n"
        "    addw r1, r1, " DEPTHWISE3X3_S8_DSP_AT(4, DEPTHWISE3X3_S8_DSP_STEP) "\n"
        "    vmov s10, lr\n"
        "    bne.w 2b\n"
        "3:\n"
        "    vmov lr, s5\n"
        "    cmp lr, #0\n"
        "    beq.w 4f\n"
        DEPTHWISE3X3_S8_DSP_STEP2("r8", "r9", "r10", "r11")
        "    vmov lr, s5\n"
        "    strb r8, [r1]\n"
        "    cmp lr, #1\n"
        "    beq.w 4f\n"
        "    strb r9, [r1, " DEPTHWISE3X3_S8_DSP_AT(1, DEPTHWISE3X3_S8_DSP_STEP) "]\n"
        "    cmp lr, #2\n"
        "    beq.w 4f\n"
        "    ldr.w r12, [r0, #48]!\n"
        "    ldr.w lr, [r0, #16]\n"
        "    ldr.w r9, [r0, #32]\n"
        "    smlabt r10, r12, r3, r10\n"
        "    smlabt r10, lr, r5, r10\n"
        "    smlabt r10, r9, r7, r10\n"
        "    .if %c[law] == 0\n"
        "    vmov r12, s9\n"
        "    vmov lr, s6\n"
        "    smmlar r10, r10, r12, lr\n"
        "    .endif\n"
        GE_DSP_LAW_KEPT_ONE(DEPTHWISE3X3_S8_DSP_LAW, "r10", "r12", "lr", "s9", "s11", "s12")
        "    ssat r10, #8, r10\n"
        "    strb r10, [r1, " DEPTHWISE3X3_S8_DSP_AT(2, DEPTHWISE3X3_S8_DSP_STEP) "]\n"
        "4:\n"
        "    vmov r2, s0\n"
        "    vmov r1, s1\n"
        "    vmov lr, s7\n"
        "    add r2, r2, #4\n"
        "    add r1, r1, #1\n"
        "    subs lr, lr, #1\n"
        "    vmov s0, r2\n"
        "    vmov s1, r1\n"
        "    vmov s7, lr\n"
        "    bne.w 1b\n"
        "    vmov r7, s15\n"
        : "+r"(r0)
        : [law] "i"(DEPTHWISE3X3_S8_DSP_LAW)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory", "s0", "s1", "s2",
          "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s15");
}

/* One output of stride 2: the words end `e`, the same words begin `n`. */
#define DEPTHWISE3X3_S8_DSP_HALF(e, n, at)                                                                             \
    "    ldr.w r10, [r0, #48]!\n"                                                                                      \
    "    ldr.w r11, [r0, #16]\n"                                                                                       \
    "    ldr.w r12, [r0, #32]\n"                                                                                       \
    "    vmov " n ", s8\n"                                                                                             \
    "    smlabt " e ", r10, r3, " e "\n"                                                                               \
    "    smlad " n ", r10, r2, " n "\n"                                                                                \
    "    smlabt " e ", r11, r5, " e "\n"                                                                               \
    "    smlad " n ", r11, r4, " n "\n"                                                                                \
    "    smlabt " e ", r12, r7, " e "\n"                                                                               \
    "    smlad " n ", r12, r6, " n "\n"                                                                                \
    "    .if %c[law] == 0\n"                                                                                           \
    "    vmov r10, s6\n"                                                                                               \
    "    smmlar " e ", " e ", lr, r10\n"                                                                               \
    "    .endif\n"                                                                                                     \
    GE_DSP_LAW_KEPT_ONE(DEPTHWISE3X3_S8_DSP_LAW, e, "r10", "r11", "s9", "s11", "s12")                                  \
    "    ssat " e ", #8, " e "\n"                                                                                      \
    "    strb " e ", [r1, " at "]\n"

/* Four channels of one line, stride 2. */
__attribute__((unused, noinline)) static void depthwise3x3_s8_dsp_line2(const depthwise3x3_s8_dsp_job *job) {
    register const depthwise3x3_s8_dsp_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        "    vldmia r0, {s0-s7}\n"
        "    vmov s15, r7\n"
        "1:\n" /* a channel */
        "    vmov r12, s2\n"
        "    vmov lr, s3\n"
        "    vmov r0, s0\n"
        "    vmov r1, s1\n"
        "    vldr s8, [r12]\n"
        "    vldr s9, [r12, #4]\n"
        "    add lr, lr, r12\n"
        "    .if %c[law]\n"
        "    vldr s11, [r12, #48]\n"
        "    vldr s12, [r12, #52]\n"
        "    add r12, r12, #8\n"
        "    .endif\n"
        "    add r12, r12, #48\n"
        "    vmov s2, r12\n"
        "    ldr.w r2, [lr, #8]\n"
        "    ldr.w r3, [lr, #12]\n"
        "    ldr.w r4, [lr, #16]\n"
        "    ldr.w r5, [lr, #20]\n"
        "    ldr.w r6, [lr, #24]\n"
        "    ldr.w r7, [lr, #28]\n"
        "    ldr.w r10, [r0]\n"
        "    ldr.w r11, [r0, #16]\n"
        "    ldr.w r12, [r0, #32]\n"
        "    vmov r8, s8\n"
        "    smlad r8, r10, r2, r8\n"
        "    smlad r8, r11, r4, r8\n"
        "    smlad r8, r12, r6, r8\n"
        "    vmov lr, s4\n"
        "    vmov s10, lr\n"
        "    cmp lr, #0\n"
        "    vmov lr, s9\n"
        "    beq.w 3f\n"
        "    .balign 4\n"
        "2:\n" /* four outputs */
        DEPTHWISE3X3_S8_DSP_HALF("r8", "r9", "#0")
        DEPTHWISE3X3_S8_DSP_HALF("r9", "r8", DEPTHWISE3X3_S8_DSP_AT(1, DEPTHWISE3X3_S8_DSP_STEP))
        DEPTHWISE3X3_S8_DSP_HALF("r8", "r9", DEPTHWISE3X3_S8_DSP_AT(2, DEPTHWISE3X3_S8_DSP_STEP))
        DEPTHWISE3X3_S8_DSP_HALF("r9", "r8", DEPTHWISE3X3_S8_DSP_AT(3, DEPTHWISE3X3_S8_DSP_STEP))
        "    vmov r10, s10\n"
        "    addw r1, r1, " DEPTHWISE3X3_S8_DSP_AT(4, DEPTHWISE3X3_S8_DSP_STEP) "\n"
        "    subs r10, r10, #1\n"
        "    vmov s10, r10\n"
        "    bne.w 2b\n"
        "3:\n"
        "    vmov r10, s5\n"
        "    vmov s10, r10\n"
        "    cmp r10, #0\n"
        "    beq.w 5f\n"
        "4:\n" /* the rest, one by one */
        DEPTHWISE3X3_S8_DSP_HALF("r8", "r9", "#0")
        "    vmov r10, s10\n"
        "    addw r1, r1, " DEPTHWISE3X3_S8_DSP_AT(1, DEPTHWISE3X3_S8_DSP_STEP) "\n"
        "    mov r8, r9\n"
        "    subs r10, r10, #1\n"
        "    vmov s10, r10\n"
        "    bne.w 4b\n"
        "5:\n"
        "    vmov r2, s0\n"
        "    vmov r1, s1\n"
        "    vmov lr, s7\n"
        "    add r2, r2, #4\n"
        "    add r1, r1, #1\n"
        "    subs lr, lr, #1\n"
        "    vmov s0, r2\n"
        "    vmov s1, r1\n"
        "    vmov s7, lr\n"
        "    bne.w 1b\n"
        "    vmov r7, s15\n"
        : "+r"(r0)
        : [law] "i"(DEPTHWISE3X3_S8_DSP_LAW)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory", "s0", "s1", "s2",
          "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s15");
}

/* clang-format on */

/* Rows first..last-1, four channels from `channel` on. */
static void depthwise3x3_s8_dsp_four(const ge_conv2d_params *p, const ge_rows *x, const int32_t *packed,
                                     const ge_rows *out, int32_t first, int32_t last, int32_t channel,
                                     uint32_t *scratch) {
    const ge_dsp_lines g = ge_dsp_lines_of(p, x, DEPTHWISE3X3_S8_DSP_DOWN, first, last);
    const int32_t begin = g.down ? 0 : first;
    const int32_t end = g.down ? p->out_w : last;
    uint32_t *const ring = scratch + 4 * (GE_DSP_TAPS_WORDS + DEPTHWISE3X3_S8_DSP_MORE);
    int32_t packed_to = begin * DEPTHWISE3X3_S8_DSP_STRIDE; /* padded lines below this are in the ring */
    ge_dsp_unpack_taps(packed, DEPTHWISE3X3_S8_DSP_LAW == 0 ? 32 - p->shift : 1, DEPTHWISE3X3_S8_DSP_MORE, scratch);
    for (int32_t line = begin; line < end; line++) {
        const int32_t top = line * DEPTHWISE3X3_S8_DSP_STRIDE;
        for (; packed_to < top + 3; packed_to++) {
            ge_dsp_pack_line(p, &g, x, packed_to - g.across_pad, channel, ring);
        }
        int8_t *const to = g.down ? (int8_t *)ge_row(out, first) + line * p->out_c : (int8_t *)ge_row(out, line);
        const depthwise3x3_s8_dsp_job job = {ring,         to + channel, scratch,           (3 - top % 3) % 3 * 8,
                                             g.length / 4, g.length & 3, p->out_zero_point, 4};
        if (DEPTHWISE3X3_S8_DSP_STRIDE == 1) {
            depthwise3x3_s8_dsp_line(&job);
        } else {
            depthwise3x3_s8_dsp_line2(&job);
        }
    }
}

static void ge_depthwise3x3_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const int32_t *stream,
                                   const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t scattered = DEPTHWISE3X3_S8_DSP_DOWN && out->slots != NULL;
    const int32_t rest = p->out_c & 3;
    int32_t last = last_row;
    for (int32_t first = first_row; first < last_row; first = last) {
        last = scattered ? first + 1 : last_row;
        const int32_t *packed = stream;
        for (int32_t c = 0; c < p->out_c; c += c == 0 && rest != 0 ? rest : 4) {
            depthwise3x3_s8_dsp_four(p, x, packed, out, first, last, c, (uint32_t *)scratch);
            packed += GE_DSP_PACKED_WORDS + 4 * DEPTHWISE3X3_S8_DSP_MORE;
        }
    }
    if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
        for (int32_t y = first_row; y < last_row; y++) {
            ge_dsp_clamp((int8_t *)ge_row(out, y), p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}
