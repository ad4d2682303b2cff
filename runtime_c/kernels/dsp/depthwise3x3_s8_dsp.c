/* 3x3 depthwise convolution, stride 1 or 2, of int8 [H, W, C] for Cortex-M4, M7 and M33.
 *
 * ge_dsp_depthwise.h describes the layout of inputs and weights. It computes one channel of one line at a time, two
 * outputs per step: r0 pixels, r1 out, r2-r7 (w0, w1) (w1, w2) of the three slots, r8 r9 the two outputs, r10 r11 the
 * next two, r12 lr a word of pixels. Every word is loaded once: it completes two outputs and starts the next two. Cost:
 * 27 cycles for 2 outputs, 6 per iteration of four such steps, about 40 per channel of a line; 1.8 per input that is
 * packed.
 * With stride 2: r3 r7 w2, r5 the zero point, r8 r9 an output and the next, r10 r11 r12 words, lr the multiplier; 14
 * cycles per output.
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
#define DEPTHWISE3X3_S8_DSP_PAIRS 0 /* 1: weights are int16, (w0, w2) and (w1, 0) for each row */
#define DEPTHWISE3X3_S8_DSP_LAW 0   /* see ge_isa_dsp_law.h: that of ONNX would need more registers */

/* Words of a channel that the law has in addition to a multiplier. */
#define DEPTHWISE3X3_S8_DSP_MORE (DEPTHWISE3X3_S8_DSP_LAW == 0 ? 0 : 2)

/* Job of the loop in the order of the frame; the last word is r1 at first. */
typedef struct {
    int32_t ring_back; /* bytes from the end of a channel in the ring to the next channel */
    int32_t out_back;
    const uint32_t *taps;
    int32_t turn;  /* bytes into the weights: the tap row that belongs to the first slot */
    int32_t turns; /* iterations of the loop, times 2; + 1: the first one is half */
    int32_t rest;  /* outputs after the loop */
    int32_t zero_point;
    const uint32_t *ring; /* after the weights */
    int8_t *out;
} depthwise3x3_s8_dsp_job;

/* Outputs in half an iteration of the loop, and bytes from the first half to the second: 0 where r1 advances between
 * them. */
#define DEPTHWISE3X3_S8_DSP_UNIT (DEPTHWISE3X3_S8_DSP_STRIDE == 1 ? 4 : 2)
#define DEPTHWISE3X3_S8_DSP_HALF                                                                                       \
    (2 * DEPTHWISE3X3_S8_DSP_UNIT * DEPTHWISE3X3_S8_DSP_STEP < 4096                                                    \
         ? DEPTHWISE3X3_S8_DSP_UNIT * DEPTHWISE3X3_S8_DSP_STEP                                                         \
         : 0)

/* One word of pixels: completes e and o; starts ne and no, with the bias in `no` first. */
#define DEPTHWISE3X3_S8_DSP_WORD(x, w01, w12, e, o, ne, no, start)                                                     \
    "    smlabt " e ", " x ", " w12 ", " e "\n"                                                                        \
    "    smlad " o ", " x ", " w12 ", " o "\n"                                                                         \
    "    smlad " ne ", " x ", " w01 ", " start "\n"                                                                    \
    "    smlatb " no ", " x ", " w01 ", " no "\n"

/* clang-format off */

#define DEPTHWISE3X3_S8_DSP_STEP2(e, o, ne, no, at)                                                                    \
    "    ldr.w " no ", [sp, #4*8]\n"                                                                                            \
    "    ldr.w r12, [r0, #48]!\n"                                                                                      \
    "    ldr.w lr, [r0, #16]\n"                                                                                        \
    DEPTHWISE3X3_S8_DSP_WORD("r12", "r2", "r3", e, o, ne, no, no)                                                      \
    "    ldr.w r12, [r0, #32]\n"                                                                                       \
    DEPTHWISE3X3_S8_DSP_WORD("lr", "r4", "r5", e, o, ne, no, ne)                                                       \
    DEPTHWISE3X3_S8_DSP_WORD("r12", "r6", "r7", e, o, ne, no, ne)                                                      \
    "    .if %c[law] == 0\n"                                                                                           \
    "    ldr.w r12, [sp, #4*9]\n"                                                                                               \
    "    ldr.w lr, [sp, #4*6]\n"                                                                                                \
    "    smmlar " e ", " e ", r12, lr\n"                                                                               \
    "    smmlar " o ", " o ", r12, lr\n"                                                                               \
    "    .endif\n"                                                                                                     \
    GE_DSP_LAW_KEPT_TWO(DEPTHWISE3X3_S8_DSP_LAW, e, o, "r12", "lr", "9", "11", "12")                                \
    "    ssat " e ", #8, " e "\n"                                                                                      \
    "    ssat " o ", #8, " o "\n"                                                                                      \
    "    strb " e ", [r1, #" at "]\n"                                                                                  \
    "    strb " o ", [r1, #" at "+%c[step]]\n"

#define DEPTHWISE3X3_S8_DSP_STEP4(at)                                                                                  \
    DEPTHWISE3X3_S8_DSP_STEP2("r8", "r9", "r10", "r11", at)                                                            \
    DEPTHWISE3X3_S8_DSP_STEP2("r10", "r11", "r8", "r9", at "+2*%c[step]")

/* Begins a line. */
#define DEPTHWISE3X3_S8_DSP_BEGIN(function) \
    GE_DSP_ENTER(function, DEPTHWISE3X3_S8_DSP_LAW, "r1-r6, r8-r10") \
    "    mov.w r0, r9\n" \
    "    mov.w r1, r10\n"

/* Begins a channel: bias in word 8, multiplier in word 9, weights in r2-r7, the first pair in r12 lr r10. */
#define DEPTHWISE3X3_S8_DSP_CHANNEL                                                                                    \
    "    ldr.w r12, [sp, #4*2]\n"                                                                                               \
    "    ldr.w lr, [sp, #4*3]\n"                                                                                                \
    "    ldr.w r3, [r12, #4]\n" \
    "    ldr.w r2, [r12], #8\n" \
    "    .if %c[law]\n" \
    "    ldr.w r5, [r12, #4]\n" \
    "    ldr.w r4, [r12], #8\n" \
    "    str.w r4, [sp, #4*11]\n" \
    "    str.w r5, [sp, #4*12]\n" \
    "    .endif\n" \
    "    str.w r2, [sp, #4*8]\n" \
    "    str.w r3, [sp, #4*9]\n" \
    "    add.w lr, lr, r12\n"                                                                                          \
    "    add.w r12, r12, #40\n"                                                                                        \
    "    str.w r12, [sp, #4*2]\n"                                                                                               \
    "    ldm.w lr, {r2-r7}\n"                                                                                          \
    "    ldr.w r12, [r0]\n"                                                                                            \
    "    ldr.w lr, [r0, #16]\n"                                                                                        \
    "    ldr.w r10, [r0, #32]\n"

/* Advances to the next channel. */
#define DEPTHWISE3X3_S8_DSP_NEXT                                                                                       \
    "    ldr.w r2, [sp, #4*0]\n"                                                                                                \
    "    ldr.w r3, [sp, #4*1]\n"                                                                                                \
    "    ldr.w r4, [sp, #4*2]\n"                                                                                                \
    "    ldr.w r5, [sp, #4*7]\n"                                                                                                \
    "    sub.w r0, r0, r2\n"                                                                                           \
    "    sub.w r1, r1, r3\n"                                                                                           \
    "    cmp r4, r5\n"                                                                                                 \
    "    bne.w 1b\n"                                                                                                   \
    GE_DSP_LEAVE

/* Computes four channels of one line, stride 1. */
__attribute__((unused, noinline)) static void depthwise3x3_s8_dsp_line(const depthwise3x3_s8_dsp_job *job) {
    register const depthwise3x3_s8_dsp_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        DEPTHWISE3X3_S8_DSP_BEGIN(depthwise3x3_s8_dsp_line)
        "    .balign 4\n"
        "1:\n"
        DEPTHWISE3X3_S8_DSP_CHANNEL
        "    ldr.w r9, [sp, #4*8]\n"
        "    ldr.w r11, [sp, #4*4]\n"
        "    smlad r8, r12, r2, r9\n"
        "    smlatb r9, r12, r2, r9\n"
        "    smlad r8, lr, r4, r8\n"
        "    smlatb r9, lr, r4, r9\n"
        "    smlad r8, r10, r6, r8\n"
        "    smlatb r9, r10, r6, r9\n"
        "    lsrs r11, r11, #1\n"
        "    str.w r11, [sp, #4*10]\n"
        "    bcs.w 3f\n"
        "    beq.w 4f\n"
        "    .balign 4\n"
        "2:\n" /* eight outputs */
        DEPTHWISE3X3_S8_DSP_STEP4("0")
        "    .if %c[half] == 0\n" /* offsets from r1 end at 4095 */
        "    addw r1, r1, #4*%c[step]\n"
        "    .endif\n"
        "    .balign 4\n"
        "3:\n"
        DEPTHWISE3X3_S8_DSP_STEP4("%c[half]")
        "    addw r1, r1, #%c[half]+4*%c[step]\n"
        "    ldr.w lr, [sp, #4*10]\n"
        "    subs lr, lr, #1\n"
        "    str.w lr, [sp, #4*10]\n"
        "    bne.w 2b\n"
        "4:\n"
        "    ldr.w lr, [sp, #4*5]\n"
        "    cmp.w lr, #1\n"
        "    blt.w 6f\n"
        "    beq.w 5f\n"
        DEPTHWISE3X3_S8_DSP_STEP2("r8", "r9", "r10", "r11", "0")
        "    ldr.w lr, [sp, #4*5]\n"
        "    mov.w r8, r10\n"
        "    addw r1, r1, #2*%c[step]\n"
        "    cmp.w lr, #2\n"
        "    beq.w 6f\n"
        "5:\n" /* the last one */
        "    ldr.w r12, [r0, #48]!\n"
        "    ldr.w lr, [r0, #16]\n"
        "    ldr.w r9, [r0, #32]\n"
        "    smlabt r8, r12, r3, r8\n"
        "    smlabt r8, lr, r5, r8\n"
        "    smlabt r8, r9, r7, r8\n"
        "    .if %c[law] == 0\n"
        "    ldr.w r12, [sp, #4*9]\n"
        "    ldr.w lr, [sp, #4*6]\n"
        "    smmlar r8, r8, r12, lr\n"
        "    .endif\n"
        GE_DSP_LAW_KEPT_ONE(DEPTHWISE3X3_S8_DSP_LAW, "r8", "r12", "lr", "9", "11", "12")
        "    ssat r8, #8, r8\n"
        "    strb r8, [r1]\n"
        "6:\n"
        DEPTHWISE3X3_S8_DSP_NEXT
        : "+r"(r0)
        : [law] "i"(DEPTHWISE3X3_S8_DSP_LAW), [step] "i"(DEPTHWISE3X3_S8_DSP_STEP), [half] "i"(DEPTHWISE3X3_S8_DSP_HALF)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* One output of stride 2: the words complete `e` and start `n`. */
#define DEPTHWISE3X3_S8_DSP_ONE(e, n, at)                                                                              \
    "    ldr.w " n ", [sp, #4*8]\n"                                                                                             \
    "    ldr.w r10, [r0, #48]!\n"                                                                                      \
    "    ldr.w r11, [r0, #16]\n"                                                                                       \
    "    ldr.w r12, [r0, #32]\n"                                                                                       \
    "    smlabb " e ", r10, r3, " e "\n"                                                                               \
    "    smlad " n ", r10, r2, " n "\n"                                                                                \
    "    smlabt " e ", r11, r3, " e "\n"                                                                               \
    "    smlad " n ", r11, r4, " n "\n"                                                                                \
    "    smlabt " e ", r12, r7, " e "\n"                                                                               \
    "    smlad " n ", r12, r6, " n "\n"                                                                                \
    "    .if %c[law] == 0\n"                                                                                           \
    "    smmlar " e ", " e ", lr, r5\n"                                                                                \
    "    .endif\n"                                                                                                     \
    GE_DSP_LAW_KEPT_ONE(DEPTHWISE3X3_S8_DSP_LAW, e, "r10", "r11", "9", "11", "12")                                  \
    "    ssat " e ", #8, " e "\n"                                                                                      \
    "    strb " e ", [r1, #" at "]\n"

/* Computes four channels of one line, stride 2: weights r2 r4 r6 (w0, w1), r3 r7 w2. */
__attribute__((unused, noinline)) static void depthwise3x3_s8_dsp_line2(const depthwise3x3_s8_dsp_job *job) {
    register const depthwise3x3_s8_dsp_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        DEPTHWISE3X3_S8_DSP_BEGIN(depthwise3x3_s8_dsp_line2)
        "    .balign 4\n"
        "1:\n"
        DEPTHWISE3X3_S8_DSP_CHANNEL
        "    ldr.w r8, [sp, #4*8]\n"
        "    smlad r8, r12, r2, r8\n"
        "    smlad r8, lr, r4, r8\n"
        "    smlad r8, r10, r6, r8\n"
        "    pkhtb r3, r5, r3, asr #16\n"
        "    ldr.w lr, [sp, #4*9]\n"
        "    ldr.w r5, [sp, #4*6]\n"
        "    ldr.w r10, [sp, #4*4]\n"
        "    lsrs r10, r10, #1\n"
        "    str.w r10, [sp, #4*10]\n"
        "    bcs.w 3f\n"
        "    beq.w 4f\n"
        "    .balign 4\n"
        "2:\n" /* four outputs */
        DEPTHWISE3X3_S8_DSP_ONE("r8", "r9", "0")
        DEPTHWISE3X3_S8_DSP_ONE("r9", "r8", "%c[step]")
        "3:\n"
        DEPTHWISE3X3_S8_DSP_ONE("r8", "r9", "2*%c[step]")
        DEPTHWISE3X3_S8_DSP_ONE("r9", "r8", "3*%c[step]")
        "    ldr.w r10, [sp, #4*10]\n"
        "    addw r1, r1, #4*%c[step]\n"
        "    subs r10, r10, #1\n"
        "    str.w r10, [sp, #4*10]\n"
        "    bne.w 2b\n"
        "4:\n"
        "    ldr.w r10, [sp, #4*5]\n"
        "    cmp r10, #0\n"
        "    beq.w 6f\n"
        DEPTHWISE3X3_S8_DSP_ONE("r8", "r9", "0")
        "6:\n"
        DEPTHWISE3X3_S8_DSP_NEXT
        : "+r"(r0)
        : [law] "i"(DEPTHWISE3X3_S8_DSP_LAW), [step] "i"(DEPTHWISE3X3_S8_DSP_STEP)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

/* Returns the job for lines with `length` outputs. */
static depthwise3x3_s8_dsp_job depthwise3x3_s8_dsp_job_of(const ge_conv2d_params *p, int32_t length,
                                                          const uint32_t *taps) {
    const int32_t halves = length / DEPTHWISE3X3_S8_DSP_UNIT;
    const int32_t rest = length % DEPTHWISE3X3_S8_DSP_UNIT;
    const int32_t steps = DEPTHWISE3X3_S8_DSP_STRIDE == 1 ? 2 * halves + (rest + 1) / 2 : length;
    depthwise3x3_s8_dsp_job job;
    job.ring_back = 4 * GE_DSP_RING_WORDS * steps - 4;
    job.out_back = (length - rest % 2) * DEPTHWISE3X3_S8_DSP_STEP + halves % 2 * DEPTHWISE3X3_S8_DSP_HALF - 1;
    job.taps = taps;
    job.turn = 0; /* set for each line, as is the address of the outputs */
    job.out = NULL;
    job.turns = (halves + 1) / 2 * 2 + halves % 2;
    job.rest = rest;
    job.zero_point = p->out_zero_point;
    job.ring = taps + 4 * (GE_DSP_TAPS_WORDS + DEPTHWISE3X3_S8_DSP_MORE);
    return job;
}

/* Computes rows first..last-1, the first `groups` channels of each pixel. */
static void depthwise3x3_s8_dsp_rows(const ge_conv2d_params *p, const ge_rows *x, const int32_t *packed,
                                     const ge_rows *out, int32_t first, int32_t last, uint32_t *taps) {
    const ge_dsp_lines g = ge_dsp_lines_of(p, x, DEPTHWISE3X3_S8_DSP_DOWN, first, last);
    const int32_t begin = DEPTHWISE3X3_S8_DSP_DOWN ? 0 : first;
    const int32_t end = DEPTHWISE3X3_S8_DSP_DOWN ? p->out_w : last;
    const int32_t top = begin * DEPTHWISE3X3_S8_DSP_STRIDE - (DEPTHWISE3X3_S8_DSP_DOWN ? p->pad_left : p->pad_top);
    uint32_t *const ring = taps + 4 * (GE_DSP_TAPS_WORDS + DEPTHWISE3X3_S8_DSP_MORE);
    depthwise3x3_s8_dsp_job job = depthwise3x3_s8_dsp_job_of(p, g.length, taps);
    const int32_t skipped = job.turns % 2 * DEPTHWISE3X3_S8_DSP_HALF; /* offset for loops that begin in their middle */
    int32_t padding = 0;                                              /* a slot that contains only padding */
    int32_t slot = 0;                                                 /* the next slot, which holds the oldest of three
                                                                       * lines */
    ge_dsp_fill(p, 3 * g.pairs, 4, ring);
    for (int32_t c = 0; c < p->groups; c += c == 0 && (p->groups & 3) != 0 ? p->groups & 3 : 4) {
        int8_t *to = (int8_t *)ge_row(out, first) + c;
        int32_t in = top;
        int32_t wanted = top + 3;
        if (DEPTHWISE3X3_S8_DSP_PAIRS) {
            ge_dsp_unpack_wide_taps(packed, 32 - p->shift, taps);
        } else {
            ge_dsp_unpack_taps(packed, DEPTHWISE3X3_S8_DSP_LAW == 0 ? 32 - p->shift : 1, DEPTHWISE3X3_S8_DSP_MORE,
                               taps);
        }
        packed += GE_DSP_PACKED_WORDS + 4 * (DEPTHWISE3X3_S8_DSP_PAIRS ? 3 : DEPTHWISE3X3_S8_DSP_MORE);
        slot = padding >= 0 ? padding : slot;
        for (int32_t line = begin; line < end; line++) {
            for (; in < wanted; in++) {
                if (in >= 0 && in < g.in_lines) {
                    ge_dsp_pack_line(p, &g, x, DEPTHWISE3X3_S8_DSP_DOWN, in, c, ring + 4 * slot);
                    padding = padding == slot ? -1 : padding;
                } else if (padding != slot) {
                    ge_dsp_fill(p, g.pairs, GE_DSP_RING_WORDS, ring + 4 * slot);
                    padding = slot;
                }
                slot = slot == 2 ? 0 : slot + 1;
            }
            wanted += DEPTHWISE3X3_S8_DSP_STRIDE;
            job.turn = slot == 0 ? 0 : 8 * (3 - slot);
            job.out = (DEPTHWISE3X3_S8_DSP_DOWN ? to + line * p->out_c : (int8_t *)ge_row(out, line) + c) - skipped;
            if (DEPTHWISE3X3_S8_DSP_STRIDE == 1) {
                depthwise3x3_s8_dsp_line(&job);
            } else {
                depthwise3x3_s8_dsp_line2(&job);
            }
        }
    }
}

static void ge_depthwise3x3_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const int32_t *stream,
                                   const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t follow = out->slots == NULL && out->stride == p->out_w * p->out_c;
    const int32_t scattered = DEPTHWISE3X3_S8_DSP_DOWN && !follow;
    int32_t last = last_row;
    for (int32_t first = first_row; first < last_row; first = last) {
        last = scattered ? first + 1 : last_row;
        depthwise3x3_s8_dsp_rows(p, x, stream, out, first, last, (uint32_t *)scratch);
    }
    if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
        for (int32_t y = first_row; y < last_row; y++) {
            int8_t *const row = (int8_t *)ge_row(out, y);
            if (p->groups == p->out_c) {
                ge_dsp_clamp(row, p->out_w * p->out_c, p->lo, p->hi);
            } else {
                for (int32_t i = 0; i < p->out_w; i++) {
                    ge_dsp_clamp(row + i * p->out_c, p->groups, p->lo, p->hi);
                }
            }
        }
    }
}
