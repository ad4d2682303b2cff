/* Depthwise convolution 3x3, stride 1, of float32: Helium, one channel at a time, four outputs of two lines at a time.
 *
 * ge_mve_lines.h has the planes. A sum begins with the bias and adds the taps row by row, also where lines are
 * columns. Padding is a zero, and channels of parts that read tiny numbers are computed one output after the other
 * (ge_mve_float.h explains why). 64 channels on 25x5: 12 instructions per output under QEMU.
 *
 * scratch: a plane.
 *
 *   r0 the plane, r1-r9 weights, r9 the first, r10 r11 outputs, r12 bytes of four outputs; q0 q1 sums of both lines, q2
 *   inputs, q2 q3 products, q4 bias, q5 lowest and q6 highest output, q7 offsets of outputs */
#include "ge.h"
#include "ge_mve_float.h"
#include "ge_mve_lines.h"
#include "ge_params.h"

/* clang-format off */

/* Job of one channel of a part, in the order of the offsets in the assembly. */
typedef struct {
    const float *x;       /* 0: the plane */
    uint8_t *const *outs; /* 4: first outputs of the lines */
    int32_t channel;      /* 8: bytes of the channels before */
    int32_t count;        /* 12: outputs of a line */
    int32_t four;         /* 16: bytes of four outputs */
    int32_t pairs;        /* 20: of lines */
    const float *stream;  /* 24: bias and weights */
    float lo, hi;         /* 28 */
    int32_t single;       /* 36: 1 where one more line follows the pairs */
    int32_t saved;        /* 40: r7, which a compiler may want to keep */
    int32_t offsets[4];   /* 44: of four outputs */
} depthwise_lines_f32_mve_job;

/* Inputs relative to the last of the twelve, which is read last and advances the pointer. */
#define DEPTHWISE_LINES_F32_MVE_X(line, kx) "vldrw.u32 q2, [r0, #160*" line "+4*" kx "-488]\n"
#define DEPTHWISE_LINES_F32_MVE_FIRST(a) "vmul.f32 q2, q2, " a "\n" "vadd.f32 q0, q0, q2\n"
#define DEPTHWISE_LINES_F32_MVE_SECOND(b) "vmul.f32 q2, q2, " b "\n" "vadd.f32 q1, q1, q2\n"
#define DEPTHWISE_LINES_F32_MVE_BOTH(line, kx, a, b) \
    DEPTHWISE_LINES_F32_MVE_X(line, kx) \
    "vmul.f32 q3, q2, " a "\n" \
    "vmul.f32 q2, q2, " b "\n" \
    "vadd.f32 q0, q0, q3\n" \
    "vadd.f32 q1, q1, q2\n"

/* Replaces lanes below q5 and above q6; NaN stays. */
#define DEPTHWISE_LINES_F32_MVE_LAW(q, out) \
    "vcmp.f32 lt, " q ", q5\n" \
    "vpsel " q ", q5, " q "\n" \
    "vcmp.f32 gt, " q ", q6\n" \
    "vpsel " q ", q6, " q "\n" \
    "vstrw.32 " q ", [" out ", q7]\n"

/* The weights, and the taps of two lines and of one, in the order of the sum: of lines that are rows, and of columns. */
#define DEPTHWISE_LINES_F32_MVE_ROW_WEIGHTS() \
    "ldr r9, [r0, #4]\n" \
    "ldr r1, [r0, #8]\n" \
    "ldr r2, [r0, #12]\n" \
    "ldr r3, [r0, #16]\n" \
    "ldr r4, [r0, #20]\n" \
    "ldr r5, [r0, #24]\n" \
    "ldr r6, [r0, #28]\n" \
    "ldr r7, [r0, #32]\n" \
    "ldr r8, [r0, #36]\n"
#define DEPTHWISE_LINES_F32_MVE_ROW_TWO() \
    DEPTHWISE_LINES_F32_MVE_X("0", "0") DEPTHWISE_LINES_F32_MVE_FIRST("r9") \
    DEPTHWISE_LINES_F32_MVE_X("0", "1") DEPTHWISE_LINES_F32_MVE_FIRST("r1") \
    DEPTHWISE_LINES_F32_MVE_X("0", "2") DEPTHWISE_LINES_F32_MVE_FIRST("r2") \
    DEPTHWISE_LINES_F32_MVE_BOTH("1", "0", "r3", "r9") \
    DEPTHWISE_LINES_F32_MVE_BOTH("1", "1", "r4", "r1") \
    DEPTHWISE_LINES_F32_MVE_BOTH("1", "2", "r5", "r2") \
    DEPTHWISE_LINES_F32_MVE_BOTH("2", "0", "r6", "r3") \
    DEPTHWISE_LINES_F32_MVE_BOTH("2", "1", "r7", "r4") \
    DEPTHWISE_LINES_F32_MVE_BOTH("2", "2", "r8", "r5") \
    DEPTHWISE_LINES_F32_MVE_X("3", "0") DEPTHWISE_LINES_F32_MVE_SECOND("r6") \
    DEPTHWISE_LINES_F32_MVE_X("3", "1") DEPTHWISE_LINES_F32_MVE_SECOND("r7") \
    "vldrw.u32 q2, [r0], #16\n" \
    DEPTHWISE_LINES_F32_MVE_SECOND("r8")
#define DEPTHWISE_LINES_F32_MVE_ROW_ONE() \
    DEPTHWISE_LINES_F32_MVE_X("0", "0") DEPTHWISE_LINES_F32_MVE_FIRST("r9") \
    DEPTHWISE_LINES_F32_MVE_X("0", "1") DEPTHWISE_LINES_F32_MVE_FIRST("r1") \
    DEPTHWISE_LINES_F32_MVE_X("0", "2") DEPTHWISE_LINES_F32_MVE_FIRST("r2") \
    DEPTHWISE_LINES_F32_MVE_X("1", "0") DEPTHWISE_LINES_F32_MVE_FIRST("r3") \
    DEPTHWISE_LINES_F32_MVE_X("1", "1") DEPTHWISE_LINES_F32_MVE_FIRST("r4") \
    DEPTHWISE_LINES_F32_MVE_X("1", "2") DEPTHWISE_LINES_F32_MVE_FIRST("r5") \
    DEPTHWISE_LINES_F32_MVE_X("2", "0") DEPTHWISE_LINES_F32_MVE_FIRST("r6") \
    DEPTHWISE_LINES_F32_MVE_X("2", "1") DEPTHWISE_LINES_F32_MVE_FIRST("r7") \
    DEPTHWISE_LINES_F32_MVE_X("2", "2") DEPTHWISE_LINES_F32_MVE_FIRST("r8")

#define DEPTHWISE_LINES_F32_MVE_COLUMN_WEIGHTS() \
    "ldr r9, [r0, #4]\n" \
    "ldr r1, [r0, #16]\n" \
    "ldr r2, [r0, #28]\n" \
    "ldr r3, [r0, #8]\n" \
    "ldr r4, [r0, #20]\n" \
    "ldr r5, [r0, #32]\n" \
    "ldr r6, [r0, #12]\n" \
    "ldr r7, [r0, #24]\n" \
    "ldr r8, [r0, #36]\n"
#define DEPTHWISE_LINES_F32_MVE_COLUMN_TWO() \
    DEPTHWISE_LINES_F32_MVE_X("0", "0") DEPTHWISE_LINES_F32_MVE_FIRST("r9") \
    DEPTHWISE_LINES_F32_MVE_BOTH("1", "0", "r3", "r9") \
    DEPTHWISE_LINES_F32_MVE_BOTH("2", "0", "r6", "r3") \
    DEPTHWISE_LINES_F32_MVE_X("3", "0") DEPTHWISE_LINES_F32_MVE_SECOND("r6") \
    DEPTHWISE_LINES_F32_MVE_X("0", "1") DEPTHWISE_LINES_F32_MVE_FIRST("r1") \
    DEPTHWISE_LINES_F32_MVE_BOTH("1", "1", "r4", "r1") \
    DEPTHWISE_LINES_F32_MVE_BOTH("2", "1", "r7", "r4") \
    DEPTHWISE_LINES_F32_MVE_X("3", "1") DEPTHWISE_LINES_F32_MVE_SECOND("r7") \
    DEPTHWISE_LINES_F32_MVE_X("0", "2") DEPTHWISE_LINES_F32_MVE_FIRST("r2") \
    DEPTHWISE_LINES_F32_MVE_BOTH("1", "2", "r5", "r2") \
    DEPTHWISE_LINES_F32_MVE_BOTH("2", "2", "r8", "r5") \
    "vldrw.u32 q2, [r0], #16\n" \
    DEPTHWISE_LINES_F32_MVE_SECOND("r8")
#define DEPTHWISE_LINES_F32_MVE_COLUMN_ONE() \
    DEPTHWISE_LINES_F32_MVE_X("0", "0") DEPTHWISE_LINES_F32_MVE_FIRST("r9") \
    DEPTHWISE_LINES_F32_MVE_X("1", "0") DEPTHWISE_LINES_F32_MVE_FIRST("r3") \
    DEPTHWISE_LINES_F32_MVE_X("2", "0") DEPTHWISE_LINES_F32_MVE_FIRST("r6") \
    DEPTHWISE_LINES_F32_MVE_X("0", "1") DEPTHWISE_LINES_F32_MVE_FIRST("r1") \
    DEPTHWISE_LINES_F32_MVE_X("1", "1") DEPTHWISE_LINES_F32_MVE_FIRST("r4") \
    DEPTHWISE_LINES_F32_MVE_X("2", "1") DEPTHWISE_LINES_F32_MVE_FIRST("r7") \
    DEPTHWISE_LINES_F32_MVE_X("0", "2") DEPTHWISE_LINES_F32_MVE_FIRST("r2") \
    DEPTHWISE_LINES_F32_MVE_X("1", "2") DEPTHWISE_LINES_F32_MVE_FIRST("r5") \
    DEPTHWISE_LINES_F32_MVE_X("2", "2") DEPTHWISE_LINES_F32_MVE_FIRST("r8")

/* Computes one channel of a part. */
#define DEPTHWISE_LINES_F32_MVE_FUNCTION(name, weights, two, one) \
    static GE_NOINLINE void name(depthwise_lines_f32_mve_job *job) { \
    register depthwise_lines_f32_mve_job *from __asm__("r12") = job; \
    __asm__ volatile( \
        "str r7, [r12, #40]\n" \
        "push {r12}\n" \
        "ldr r0, [r12, #24]\n" \
        "ldr r10, [r0]\n" \
        "vdup.32 q4, r10\n" \
        "ldrd r10, r11, [r12, #28]\n" \
        "vdup.32 q5, r10\n" \
        "vdup.32 q6, r11\n" \
        weights() \
        "ldr lr, [r12, #20]\n" \
        "cmp lr, #0\n" \
        "beq.w 4f\n" \
        "1:\n" /* two lines */ \
        "ldrd r0, r10, [r12]\n" \
        "add r11, r0, #320\n" \
        "add r0, r0, #488\n" \
        "str r11, [r12]\n" \
        "vldrw.u32 q7, [r12, #44]\n" \
        "ldrd r11, lr, [r10], #8\n" \
        "str r10, [r12, #4]\n" \
        "ldr r10, [r12, #8]\n" \
        "add r11, r11, r10\n" \
        "add r10, r10, lr\n" \
        "ldrd lr, r12, [r12, #12]\n" \
        "wlstp.32 lr, lr, 3f\n" \
        "2:\n" \
        "vmov q0, q4\n" \
        "vmov q1, q4\n" \
        two() \
        DEPTHWISE_LINES_F32_MVE_LAW("q1", "r10") \
        DEPTHWISE_LINES_F32_MVE_LAW("q0", "r11") \
        "vadd.i32 q7, q7, r12\n" \
        "letp lr, 2b\n" \
        "3:\n" \
        "ldr r12, [sp]\n" \
        "ldr lr, [r12, #20]\n" \
        "subs lr, lr, #1\n" \
        "str lr, [r12, #20]\n" \
        "bne.w 1b\n" \
        "4:\n" \
        "ldr lr, [r12, #36]\n" \
        "cmp lr, #0\n" \
        "beq.w 6f\n" \
        "ldrd r0, r10, [r12]\n" /* the last line */ \
        "add r0, r0, #488\n" \
        "vldrw.u32 q7, [r12, #44]\n" \
        "ldr r11, [r10]\n" \
        "ldr r10, [r12, #8]\n" \
        "add r11, r11, r10\n" \
        "ldrd lr, r12, [r12, #12]\n" \
        "wlstp.32 lr, lr, 6f\n" \
        "5:\n" \
        "vmov q0, q4\n" \
        one() \
        "adds r0, r0, #16\n" \
        DEPTHWISE_LINES_F32_MVE_LAW("q0", "r11") \
        "vadd.i32 q7, q7, r12\n" \
        "letp lr, 5b\n" \
        "6:\n" \
        "pop {r12}\n" \
        "ldr r7, [r12, #40]\n" \
        : "+r"(from) \
        : \
        : "r9", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r0", "r10", "r11", "lr", "q0", "q1", "q2", "q3", "q4", "q5", \
          "q6", "q7", "cc", "memory"); \
}

DEPTHWISE_LINES_F32_MVE_FUNCTION(depthwise_lines_f32_mve_rows, DEPTHWISE_LINES_F32_MVE_ROW_WEIGHTS,
                                 DEPTHWISE_LINES_F32_MVE_ROW_TWO, DEPTHWISE_LINES_F32_MVE_ROW_ONE)
DEPTHWISE_LINES_F32_MVE_FUNCTION(depthwise_lines_f32_mve_columns, DEPTHWISE_LINES_F32_MVE_COLUMN_WEIGHTS,
                                 DEPTHWISE_LINES_F32_MVE_COLUMN_TWO, DEPTHWISE_LINES_F32_MVE_COLUMN_ONE)

/* Gathers `lines` > 0 lines of `count` > 0 inputs, `step` bytes apart, of the channel that lies `channel` bytes behind the
 * addresses `x`. Returns the least of them (ge_mve_float_least). */
static inline uint32_t depthwise_lines_f32_mve_gather(const uint8_t *const *x, int32_t channel, int32_t step,
                                                      int32_t count, int32_t lines, float *to) {
    uint32_t least = GE_MVE_FLOAT_NONE;
    __asm__ volatile("mov r4, #0\n"
                     "vidup.u32 q1, r4, #1\n"
                     "mvn r3, #0\n"
                     "vmov.i32 q2, #2\n"
                     "vmul.i32 q1, q1, %[step]\n"
                     "lsl %[step], %[step], #2\n"
                     "1:\n"
                     "ldr r4, [%[x]], #4\n"
                     "mov r5, %[to]\n"
                     "add r4, r4, %[channel]\n"
                     "add %[to], %[to], #160\n"
                     "wlstp.32 lr, %[count], 3f\n"
                     "2:\n"
                     "vldrw.u32 q0, [r4, q1]\n"
                     "add r4, r4, %[step]\n"
                     "vstrw.32 q0, [r5], #16\n"
                     "vmlas.s32 q0, q2, r3\n"
                     "vminv.u32 %[least], q0\n"
                     "letp lr, 2b\n"
                     "3:\n"
                     "subs %[lines], %[lines], #1\n"
                     "bne 1b\n"
                     : [x] "+&r"(x), [step] "+&r"(step), [lines] "+&r"(lines), [to] "+&r"(to), [least] "+&r"(least)
                     : [channel] "r"(channel), [count] "r"(count)
                     : "r3", "r4", "r5", "lr", "q0", "q1", "q2", "cc", "memory");
    return least;
}

/* clang-format on */

/* Computes the same as the loops with scalar arithmetic, for any numbers. */
static GE_NOINLINE void depthwise_lines_f32_mve_singly(const depthwise_lines_f32_mve_job *job, int32_t lines,
                                                       int32_t down) {
    const int32_t y = down ? 1 : GE_MVE_LINES_PITCH, x = down ? GE_MVE_LINES_PITCH : 1;
    const float *const weights = job->stream + 1;
    for (int32_t line = 0; line < lines; line++) {
        uint8_t *out = job->outs[line] + job->channel;
        for (int32_t i = 0; i < job->count; i++) {
            const float *const window = job->x + line * GE_MVE_LINES_PITCH + i;
            float sum = job->stream[0];
            for (int32_t tap = 0; tap < 9; tap++) {
                sum += window[tap / 3 * y + tap % 3 * x] * weights[tap];
            }
            *(float *)(void *)out = ge_clamp_f32(sum, job->lo, job->hi);
            out += job->offsets[1];
        }
    }
}

/* Computes all channels of a part. */
static GE_NOINLINE void depthwise_lines_f32_mve_part(const ge_conv2d_f32_params *p, const ge_mve_lines *l,
                                                     const ge_mve_lines_part *part, const float *stream, float *plane) {
    depthwise_lines_f32_mve_job job = {plane,           NULL, 0,  part->count, 4 * l->out_step, 0, stream, p->lo, p->hi,
                                       part->lines & 1, 0,    {0}};
    for (int32_t i = 0; i < 4; i++) {
        job.offsets[i] = i * l->out_step;
    }
    ge_mve_float_zeros(plane, (part->lines + 2) * GE_MVE_LINES_PITCH);
    for (int32_t c = 0; c < p->out_c; c++) {
        uint32_t least = GE_MVE_FLOAT_NONE;
        if (part->in_lines > 0) {
            least = depthwise_lines_f32_mve_gather(part->x, 4 * c, l->in_step, part->inputs, part->in_lines,
                                                   plane + part->place);
        }
        job.x = plane;
        job.outs = part->out;
        job.channel = 4 * c;
        job.pairs = part->lines / 2;
        if (ge_mve_float_tiny(least)) {
            depthwise_lines_f32_mve_singly(&job, part->lines, l->down);
        } else if (l->down) {
            depthwise_lines_f32_mve_columns(&job);
        } else {
            depthwise_lines_f32_mve_rows(&job);
        }
        job.stream += 10;
    }
}

static void ge_depthwise_lines_f32_mve(const ge_conv2d_f32_params *p, const ge_rows *x, const float *stream,
                                       const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    ge_mve_lines l = GE_MVE_LINES(p, x, out, first_row, last_row, 4);
    ge_mve_lines_turn(&l, x, out, 4);
    for (int32_t line = 0; line < l.lines; line += GE_MVE_LINES_MAX) {
        for (int32_t at = 0; at < l.length; at += GE_MVE_LINES_PITCH - 2) {
            const ge_mve_lines_part *const part = ge_mve_lines_part_of(&l, x, out, line, at, scratch);
            depthwise_lines_f32_mve_part(p, &l, part, stream, (float *)(void *)(((ge_mve_lines_part *)scratch) + 1));
        }
    }
}
