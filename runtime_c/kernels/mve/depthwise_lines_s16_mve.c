/* Depthwise convolution 3x3, stride 1, of int16 with int8 or int16 weights, sums of 32 bits: Helium, one channel at a
 * time, four outputs of two lines at a time.
 *
 * ge_mve_lines.h has the planes. VLDRH.S32 reads four neighbouring inputs from any address, and VMLA multiplies them by a
 * weight in a core register. 64 channels on 25x5: 8 instructions per output under QEMU.
 *
 * scratch: a part and its plane. It requires shift 32, sums below 2^31 and outputs without a zero point.
 *
 *   r0 the plane, r1-r9 weights, r9 the first, r10 r11 outputs, r12 bytes of four outputs; q0 q1 sums of both lines, q2 inputs, q3
 *   multiplier, q4 bias, q5 lowest and q6 highest output, q7 offsets of outputs */
#include "ge.h"
#include "ge_mve_lines.h"
#include "ge_mve_wide.h"
#include "ge_params.h"

/* clang-format off */
#define DEPTHWISE_LINES_S16_MVE_BYTES 1 /* bytes of a weight: 1 or 2 */
#define DEPTHWISE_LINES_S16_MVE_LOAD DEPTHWISE_LINES_S16_MVE_SIGNED_BYTE /* or DEPTHWISE_LINES_S16_MVE_HALF */
#define DEPTHWISE_LINES_S16_MVE_SIGNED_BYTE(r, i) "ldrsb " r ", [r0, #8+" i "]\n"
#define DEPTHWISE_LINES_S16_MVE_HALF(r, i) "ldrsh " r ", [r0, #8+2*" i "]\n"

/* Job of one channel of a part, in the order of the offsets in the assembly. */
typedef struct {
    const int16_t *x;     /* 0: the plane */
    uint8_t *const *outs; /* 4: first outputs of the lines */
    int32_t channel;      /* 8: bytes of the channels before */
    int32_t count;        /* 12: outputs of a line */
    int32_t four;         /* 16: bytes of four outputs */
    int32_t pairs;        /* 20: of lines */
    const int8_t *stream; /* 24: bias, multiplier and weights */
    int32_t lo, hi;       /* 28 */
    int32_t single;       /* 36: 1 where one more line follows the pairs */
    int32_t saved;        /* 40: r7, which a compiler may want to keep */
    int32_t offsets[4];   /* 44: of four outputs */
    int32_t down;         /* 60: 1 where lines are columns */
} depthwise_lines_s16_mve_job;

#define DEPTHWISE_LINES_S16_MVE_X(line, kx) "vldrh.s32 q2, [r0, #80*" line "+2*" kx "]\n"
#define DEPTHWISE_LINES_S16_MVE_FIRST(a) "vmla.s32 q0, q2, " a "\n"
#define DEPTHWISE_LINES_S16_MVE_SECOND(b) "vmla.s32 q1, q2, " b "\n"
#define DEPTHWISE_LINES_S16_MVE_BOTH(line, kx, a, b) \
    DEPTHWISE_LINES_S16_MVE_X(line, kx) \
    DEPTHWISE_LINES_S16_MVE_FIRST(a) \
    DEPTHWISE_LINES_S16_MVE_SECOND(b)

#define DEPTHWISE_LINES_S16_MVE_LAW(q, out) \
    "vrmulh.s32 " q ", " q ", q3\n" \
    "vmax.s32 " q ", " q ", q5\n" \
    "vmin.s32 " q ", " q ", q6\n" \
    "vstrh.32 " q ", [" out ", q7]\n"

/* Nine taps of the first line, of which the first one is last because it advances the pointer. */
#define DEPTHWISE_LINES_S16_MVE_NEXT \
    "vldrh.s32 q2, [r0], #8\n" \
    DEPTHWISE_LINES_S16_MVE_FIRST("r9")

static GE_NOINLINE void depthwise_lines_s16_mve_channel(depthwise_lines_s16_mve_job *job) {
    register depthwise_lines_s16_mve_job *from __asm__("r12") = job;
    __asm__ volatile(
        "str r7, [r12, #40]\n"
        "push {r12}\n"
        "ldr r0, [r12, #24]\n"
        "ldr r10, [r0]\n"
        "ldr r11, [r0, #4]\n"
        "vdup.32 q4, r10\n"
        "vdup.32 q3, r11\n"
        "ldrd r10, r11, [r12, #28]\n"
        "vdup.32 q5, r10\n"
        "vdup.32 q6, r11\n"
        "ldr lr, [r12, #60]\n"
        "cmp lr, #0\n"
        "bne 7f\n"
        DEPTHWISE_LINES_S16_MVE_LOAD("r9", "0")
        DEPTHWISE_LINES_S16_MVE_LOAD("r1", "1")
        DEPTHWISE_LINES_S16_MVE_LOAD("r2", "2")
        DEPTHWISE_LINES_S16_MVE_LOAD("r3", "3")
        DEPTHWISE_LINES_S16_MVE_LOAD("r4", "4")
        DEPTHWISE_LINES_S16_MVE_LOAD("r5", "5")
        DEPTHWISE_LINES_S16_MVE_LOAD("r6", "6")
        DEPTHWISE_LINES_S16_MVE_LOAD("r7", "7")
        DEPTHWISE_LINES_S16_MVE_LOAD("r8", "8")
        "b 8f\n"
        "7:\n" /* lines are columns */
        DEPTHWISE_LINES_S16_MVE_LOAD("r9", "0")
        DEPTHWISE_LINES_S16_MVE_LOAD("r1", "3")
        DEPTHWISE_LINES_S16_MVE_LOAD("r2", "6")
        DEPTHWISE_LINES_S16_MVE_LOAD("r3", "1")
        DEPTHWISE_LINES_S16_MVE_LOAD("r4", "4")
        DEPTHWISE_LINES_S16_MVE_LOAD("r5", "7")
        DEPTHWISE_LINES_S16_MVE_LOAD("r6", "2")
        DEPTHWISE_LINES_S16_MVE_LOAD("r7", "5")
        DEPTHWISE_LINES_S16_MVE_LOAD("r8", "8")
        "8:\n"
        "ldr lr, [r12, #20]\n"
        "cmp lr, #0\n"
        "beq.w 4f\n"
        "1:\n" /* two lines */
        "ldrd r0, r10, [r12]\n"
        "add r11, r0, #160\n"
        "str r11, [r12]\n"
        "vldrw.u32 q7, [r12, #44]\n"
        "ldrd r11, lr, [r10], #8\n"
        "str r10, [r12, #4]\n"
        "ldr r10, [r12, #8]\n"
        "add r11, r11, r10\n"
        "add r10, r10, lr\n"
        "ldrd lr, r12, [r12, #12]\n"
        "wlstp.32 lr, lr, 3f\n"
        "2:\n"
        "vmov q0, q4\n"
        DEPTHWISE_LINES_S16_MVE_X("0", "1") DEPTHWISE_LINES_S16_MVE_FIRST("r1")
        "vmov q1, q4\n"
        DEPTHWISE_LINES_S16_MVE_X("0", "2") DEPTHWISE_LINES_S16_MVE_FIRST("r2")
        DEPTHWISE_LINES_S16_MVE_BOTH("1", "0", "r3", "r9")
        DEPTHWISE_LINES_S16_MVE_BOTH("1", "1", "r4", "r1")
        DEPTHWISE_LINES_S16_MVE_BOTH("1", "2", "r5", "r2")
        DEPTHWISE_LINES_S16_MVE_BOTH("2", "0", "r6", "r3")
        DEPTHWISE_LINES_S16_MVE_BOTH("2", "1", "r7", "r4")
        DEPTHWISE_LINES_S16_MVE_BOTH("2", "2", "r8", "r5")
        DEPTHWISE_LINES_S16_MVE_X("3", "0") DEPTHWISE_LINES_S16_MVE_SECOND("r6")
        DEPTHWISE_LINES_S16_MVE_X("3", "1") DEPTHWISE_LINES_S16_MVE_SECOND("r7")
        DEPTHWISE_LINES_S16_MVE_X("3", "2") DEPTHWISE_LINES_S16_MVE_SECOND("r8")
        DEPTHWISE_LINES_S16_MVE_NEXT
        DEPTHWISE_LINES_S16_MVE_LAW("q1", "r10")
        DEPTHWISE_LINES_S16_MVE_LAW("q0", "r11")
        "vadd.i32 q7, q7, r12\n"
        "letp lr, 2b\n"
        "3:\n"
        "ldr r12, [sp]\n"
        "ldr lr, [r12, #20]\n"
        "subs lr, lr, #1\n"
        "str lr, [r12, #20]\n"
        "bne.w 1b\n"
        "4:\n"
        "ldr lr, [r12, #36]\n"
        "cmp lr, #0\n"
        "beq.w 6f\n"
        "ldrd r0, r10, [r12]\n" /* the last line */
        "vldrw.u32 q7, [r12, #44]\n"
        "ldr r11, [r10]\n"
        "ldr r10, [r12, #8]\n"
        "add r11, r11, r10\n"
        "ldrd lr, r12, [r12, #12]\n"
        "wlstp.32 lr, lr, 6f\n"
        "5:\n"
        "vmov q0, q4\n"
        DEPTHWISE_LINES_S16_MVE_X("0", "1") DEPTHWISE_LINES_S16_MVE_FIRST("r1")
        DEPTHWISE_LINES_S16_MVE_X("0", "2") DEPTHWISE_LINES_S16_MVE_FIRST("r2")
        DEPTHWISE_LINES_S16_MVE_X("1", "0") DEPTHWISE_LINES_S16_MVE_FIRST("r3")
        DEPTHWISE_LINES_S16_MVE_X("1", "1") DEPTHWISE_LINES_S16_MVE_FIRST("r4")
        DEPTHWISE_LINES_S16_MVE_X("1", "2") DEPTHWISE_LINES_S16_MVE_FIRST("r5")
        DEPTHWISE_LINES_S16_MVE_X("2", "0") DEPTHWISE_LINES_S16_MVE_FIRST("r6")
        DEPTHWISE_LINES_S16_MVE_X("2", "1") DEPTHWISE_LINES_S16_MVE_FIRST("r7")
        DEPTHWISE_LINES_S16_MVE_X("2", "2") DEPTHWISE_LINES_S16_MVE_FIRST("r8")
        DEPTHWISE_LINES_S16_MVE_NEXT
        DEPTHWISE_LINES_S16_MVE_LAW("q0", "r11")
        "vadd.i32 q7, q7, r12\n"
        "letp lr, 5b\n"
        "6:\n"
        "pop {r12}\n"
        "ldr r7, [r12, #40]\n"
        : "+r"(from)
        :
        : "r9", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r0", "r10", "r11", "lr", "q0", "q1", "q2", "q3", "q4", "q5",
          "q6", "q7", "cc", "memory");
}

/* Gathers `lines` > 0 lines of `count` inputs, `step` elements apart, of the channel that lies `channel` bytes behind the
 * addresses `x`. */
static inline void depthwise_lines_s16_mve_gather(const uint8_t *const *x, int32_t channel, int32_t step, int32_t count,
                                                  int32_t lines, int16_t *to) {
    __asm__ volatile("mov r4, #0\n"
                     "vidup.u16 q1, r4, #1\n"
                     "vmul.i16 q1, q1, %[step]\n"
                     "lsl %[step], %[step], #4\n"
                     "1:\n"
                     "ldr r4, [%[x]], #4\n"
                     "mov r5, %[to]\n"
                     "add r4, r4, %[channel]\n"
                     "add %[to], %[to], #80\n"
                     "wlstp.16 lr, %[count], 3f\n"
                     "2:\n"
                     "vldrh.u16 q0, [r4, q1, uxtw #1]\n"
                     "add r4, r4, %[step]\n"
                     "vstrh.16 q0, [r5], #16\n"
                     "letp lr, 2b\n"
                     "3:\n"
                     "subs %[lines], %[lines], #1\n"
                     "bne 1b\n"
                     : [x] "+&r"(x), [step] "+&r"(step), [lines] "+&r"(lines), [to] "+&r"(to)
                     : [channel] "r"(channel), [count] "r"(count)
                     : "r4", "r5", "lr", "q0", "q1", "cc", "memory");
}

/* clang-format on */

/* Computes all channels of a part. */
static GE_NOINLINE void depthwise_lines_s16_mve_part(const ge_conv2d_s16_params *p, const ge_mve_lines *l,
                                                     const ge_mve_lines_part *part, const int8_t *stream,
                                                     int16_t *plane) {
    depthwise_lines_s16_mve_job job = {
        NULL, NULL, 0, part->count, 4 * l->out_step, 0, stream, p->lo, p->hi, part->lines & 1, 0, {0}, l->down};
    for (int32_t i = 0; i < 4; i++) {
        job.offsets[i] = i * l->out_step;
    }
    ge_mve_wide_fill(plane, p->in_zero_point, (part->lines + 2) * GE_MVE_LINES_PITCH);
    for (int32_t c = 0; c < p->out_c; c++) {
        if (part->in_lines > 0) {
            depthwise_lines_s16_mve_gather(part->x, 2 * c, l->in_step / 2, part->inputs, part->in_lines,
                                           plane + part->place);
        }
        job.x = plane;
        job.outs = part->out;
        job.channel = 2 * c;
        job.pairs = part->lines / 2;
        depthwise_lines_s16_mve_channel(&job);
        job.stream += 8 + 9 * DEPTHWISE_LINES_S16_MVE_BYTES;
    }
}

static void ge_depthwise_lines_s16_mve(const ge_conv2d_s16_params *p, const ge_rows *x, const int8_t *stream,
                                       const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    ge_mve_lines l = GE_MVE_LINES(p, x, out, first_row, last_row, 2);
    ge_mve_lines_turn(&l, x, out, 2);
    for (int32_t line = 0; line < l.lines; line += GE_MVE_LINES_MAX) {
        for (int32_t at = 0; at < l.length; at += GE_MVE_LINES_PITCH - 2) {
            const ge_mve_lines_part *const part = ge_mve_lines_part_of(&l, x, out, line, at, scratch);
            depthwise_lines_s16_mve_part(p, &l, part, stream, (int16_t *)(void *)(((ge_mve_lines_part *)scratch) + 1));
        }
    }
}
