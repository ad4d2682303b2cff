/* 3x3 depthwise convolution with padding, a multiple of eight channels and a horizontal stride of 1, for any law:
 * Helium.
 *
 * VMLADAV sums along a vector, so a vector has to hold the window of one channel: rows of the input are copied into
 * scratch channel by channel, three padded rows of each. One gather of bytes then fetches three rows by five columns,
 * which are the windows of three neighbouring pixels: each pixel takes one load of weights, shifted by its number of
 * columns, and one VMLADAV. Four channels make vectors of outputs as in conv2d_s8_mve.c.
 *
 * Measured, instructions under QEMU: 25x5x64 48,794 (6.1 per output, 9.8 in depthwise_s8_mve.c).
 *
 *   r0 r2 | r4 r6 | r8 r10  sums of pixel 0, 1, 2 in two channels     r1 r3 r5  where they go
 *   r12 the window in the plane of a channel     r11 bytes of a plane, or of two     r9 the stream     r7 the job
 *   lr groups of four channels
 *   q0 weights, q1 q3 windows, q4 offsets of the gather, q2 those in the next plane, q5 q6 q7 four outputs of pixel 0, 1, 2;
 *   then q0-q3 constants
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_mve.h"
#include "ge_mve_law.h"
#include "ge_params.h"

#define DEPTHWISE3X3_S8_MVE_CLAMP 1 /* 0: the limits are those of int8 */
#define DEPTHWISE3X3_S8_MVE_NEAR 0  /* 1: offsets to the next channel fit a byte too, so q2 holds them */

#define DEPTHWISE3X3_S8_MVE_TEXT(x) #x
#define DEPTHWISE3X3_S8_MVE_NUMBER(x) DEPTHWISE3X3_S8_MVE_TEXT(x)

/* Bytes from the start of a group in the stream to the weights of its last channel: eight zeros, and three channels. */
#define DEPTHWISE3X3_S8_MVE_LAST 56

typedef struct {
    uint8_t offsets[16];  /* 0: of three rows by five columns, column by column */
    int32_t lo[4];        /* 16 */
    int32_t hi[4];        /* 32 */
    int32_t zero_point;   /* 48 */
    const int8_t *x;      /* 52: windows in the plane of channel 0 */
    const int8_t *stream; /* 56 */
    int8_t *out[3];       /* 60 */
    int32_t groups;       /* 72: of four channels */
    int32_t plane;        /* 76: bytes */
    int32_t saved[2];     /* 80: r7 and r11, which a compiler may want to keep */
    int32_t pitch;        /* bytes of a row in a plane */
    int32_t next;         /* the first row that has not been copied yet */
    int8_t *planes;
} depthwise3x3_s8_mve_job;

/* clang-format off */

/* Multiplies the window `x` of one channel by its weights, `at` bytes after r9, which advances by `on`. Loads and
 * VMLADAV use separate pipes for two cycles each, so they alternate; moves to lanes, if any, are placed where their
 * sums are ready. */
#define DEPTHWISE3X3_S8_MVE_CHANNEL(x, at, on, first, second, third, lane, last)                                       \
    "vldrb.8 q0, [r9, #(" at " - 3)]\n"                                                                                \
    "vmladav.s8 " second ", q0, " x "\n"                                                                               \
    ".if ge_pixels == 3\n"                                                                                             \
    "vldrb.8 q0, [r9, #(" at " - 6)]\n"                                                                                \
    "vmladav.s8 " third ", q0, " x "\n"                                                                                \
    ".endif\n"                                                                                                         \
    lane                                                                                                               \
    "vldrb.8 q0, [r9" on "\n"                                                                                          \
    "vmladav.s8 " first ", q0, " x "\n"                                                                                \
    last

/* Computes two channels; the window of the first is already in q1. Windows are gathered one channel ahead; `gather`
 * loads that of the next one. */
#define DEPTHWISE3X3_S8_MVE_CHANNELS(at, on, next, next_on, gather, lane, high, low)                                   \
    ".if ge_near\n"                                                                                                    \
    "vldrb.u8 q3, [r12, q2]\n"                                                                                         \
    ".else\n"                                                                                                          \
    "add r12, r12, r11\n"                                                                                              \
    "vldrb.u8 q3, [r12, q4]\n"                                                                                         \
    ".endif\n"                                                                                                         \
    "add r12, r12, r11\n"                                                                                              \
    DEPTHWISE3X3_S8_MVE_CHANNEL("q1", at, on, "r0", "r4", "r8", lane, "")                                              \
    gather                                                                                                             \
    DEPTHWISE3X3_S8_MVE_CHANNEL("q3", next, next_on, "r2", "r6", "r10",                                                \
                                "vmov q6[" high "], q6[" low "], r4, r6\n",                                            \
                                ".if ge_pixels == 3\n"                                                                 \
                                "vmov q7[" high "], q7[" low "], r8, r10\n"                                            \
                                ".endif\n")

#define DEPTHWISE3X3_S8_MVE_GATHER "vldrb.u8 q1, [r12, q4]\n"

#define DEPTHWISE3X3_S8_MVE_STORE(q, to)                                                                               \
    "vadd.i32 " q ", " q ", r0\n"                                                                                      \
    "vmax.s32 " q ", " q ", q2\n"                                                                                      \
    "vmin.s32 " q ", " q ", q3\n"                                                                                      \
    "vstrb.32 " q ", [" to "], #4\n"

/* Computes all channels of `pixels` pixels, 2 or 3. The first pixel is stored last: where a second one does not exist,
 * both go to the same place. */
#define DEPTHWISE3X3_S8_MVE_BLOCK(pixels)                                                                              \
    ".set ge_pixels, " pixels "\n"                                                                                     \
    ".set ge_clamped, " DEPTHWISE3X3_S8_MVE_NUMBER(DEPTHWISE3X3_S8_MVE_CLAMP) "\n"                                       \
    ".set ge_near, " DEPTHWISE3X3_S8_MVE_NUMBER(DEPTHWISE3X3_S8_MVE_NEAR) "\n"                                         \
    "mov r0, %[job]\n"                                                                                                 \
    "strd r7, r11, [r0, #80]\n"                                                                                        \
    "mov r7, r0\n"                                                                                                     \
    "vldrw.u32 q4, [r7]\n"                                                                                             \
    "ldrd r12, r9, [r7, #52]\n"                                                                                        \
    "ldrd r1, r3, [r7, #60]\n"                                                                                         \
    "ldrd r5, lr, [r7, #68]\n"                                                                                         \
    "ldr r11, [r7, #76]\n"                                                                                             \
    "dls lr, lr\n"                                                                                                     \
    ".if ge_near\n"                                                                                                    \
    "vadd.i8 q2, q4, r11\n"                                                                                            \
    "lsl r11, r11, #1\n"                                                                                               \
    ".endif\n"                                                                                                         \
    "1:\n"                                                                                                             \
    DEPTHWISE3X3_S8_MVE_GATHER                                                                                         \
    DEPTHWISE3X3_S8_MVE_CHANNELS("-48", ", #-48]", "-32", ", #-32]", DEPTHWISE3X3_S8_MVE_GATHER, "", "2", "0")         \
    DEPTHWISE3X3_S8_MVE_CHANNELS("-16", ", #-16]", "0", "], #16", "", "vmov q5[2], q5[0], r0, r2\n", "3", "1")         \
    "vmov q5[3], q5[1], r0, r2\n"                                                                                      \
    GE_MVE_LAW_LOAD("r9", "r0")                                                                                        \
    "vldrw.u32 q0, [r9], #72\n" /* 16, and DEPTHWISE3X3_S8_MVE_LAST */                                                 \
    ".if ge_pixels == 3\n"                                                                                             \
    "vadd.i32 q7, q7, q0\n"                                                                                            \
    ".endif\n"                                                                                                         \
    "vadd.i32 q5, q5, q0\n"                                                                                            \
    "vadd.i32 q6, q6, q0\n"                                                                                            \
    ".if ge_pixels == 3\n"                                                                                             \
    GE_MVE_LAW_SCALE("q7", "r0")                                                                                       \
    ".endif\n"                                                                                                         \
    GE_MVE_LAW_SCALE("q5", "r0")                                                                                       \
    ".if ge_pixels == 3 && ge_clamped == 0\n"                                                                          \
    "vqmovnb.s32 q7, q7\n"                                                                                             \
    ".endif\n"                                                                                                         \
    GE_MVE_LAW_SCALE("q6", "r0")                                                                                       \
    "ldr r0, [r7, #48]\n"                                                                                              \
    ".if ge_clamped\n"                                                                                                   \
    "vldrw.u32 q2, [r7, #16]\n"                                                                                        \
    "vldrw.u32 q3, [r7, #32]\n"                                                                                        \
    ".if ge_pixels == 3\n"                                                                                             \
    DEPTHWISE3X3_S8_MVE_STORE("q7", "r5")                                                                              \
    ".endif\n"                                                                                                         \
    DEPTHWISE3X3_S8_MVE_STORE("q6", "r3")                                                                              \
    DEPTHWISE3X3_S8_MVE_STORE("q5", "r1")                                                                              \
    ".else\n"                                                                                                          \
    "vqmovnb.s32 q5, q5\n"                                                                                             \
    ".if ge_pixels == 3\n"                                                                                             \
    "vqadd.s16 q7, q7, r0\n"                                                                                           \
    ".endif\n"                                                                                                         \
    "vqmovnt.s32 q5, q6\n"                                                                                             \
    ".if ge_pixels == 3\n"                                                                                             \
    "vqmovnb.s16 q7, q7\n"                                                                                             \
    ".endif\n"                                                                                                         \
    "vqadd.s16 q5, q5, r0\n"                                                                                           \
    "vqmovnb.s16 q5, q5\n"                                                                                             \
    ".if ge_pixels == 3\n"                                                                                             \
    "vstrb.32 q7, [r5], #4\n"                                                                                          \
    ".endif\n"                                                                                                         \
    "vshr.u32 q6, q5, #16\n"                                                                                           \
    "vstrb.32 q6, [r3], #4\n"                                                                                          \
    "vstrb.32 q5, [r1], #4\n"                                                                                          \
    ".endif\n"                                                                                                         \
    "le lr, 1b\n"                                                                                                      \
    "ldrd r7, r11, [r7, #80]\n"

#define DEPTHWISE3X3_S8_MVE_CLOBBERS                                                                                   \
    "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5",      \
        "q6", "q7", "cc", "memory"

static void depthwise3x3_s8_mve_three(depthwise3x3_s8_mve_job *job) {
    __asm__ volatile(DEPTHWISE3X3_S8_MVE_BLOCK("3") : : [job] "r"(job) : DEPTHWISE3X3_S8_MVE_CLOBBERS);
}

static void depthwise3x3_s8_mve_two(depthwise3x3_s8_mve_job *job) {
    __asm__ volatile(DEPTHWISE3X3_S8_MVE_BLOCK("2") : : [job] "r"(job) : DEPTHWISE3X3_S8_MVE_CLOBBERS);
}

/* clang-format on */

/* Copies `columns` pixels into a row of the planes; each four channels in the order 0 2 1 3. */
static void depthwise3x3_s8_mve_copy(const depthwise3x3_s8_mve_job *job, const int8_t *x, int8_t *to, int32_t columns) {
    static const uint16_t order[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    const int32_t sixteen = 16 * job->plane;
    const int32_t fours = job->groups;
    __asm__ volatile("vldrh.u16 q1, [%[order]]\n"
                     "lsr r4, %[sixteen], #4\n"
                     "vmul.i16 q1, q1, r4\n"
                     "lsr r4, %[sixteen], #1\n"
                     "vadd.i16 q2, q1, r4\n"
                     "1:\n"
                     "mov r4, %[to]\n"
                     "lsr lr, %[fours], #2\n"
                     "wls lr, lr, 3f\n"
                     "2:\n"
                     "vldrb.u16 q0, [%[x]], #8\n"
                     "vstrb.16 q0, [r4, q1]\n"
                     "vldrb.u16 q0, [%[x]], #8\n"
                     "vstrb.16 q0, [r4, q2]\n"
                     "add r4, r4, %[sixteen]\n"
                     "le lr, 2b\n"
                     "3:\n"
                     "tst %[fours], #2\n"
                     "beq 4f\n"
                     "vldrb.u16 q0, [%[x]], #8\n"
                     "vstrb.16 q0, [r4, q1]\n"
                     "4:\n"
                     "add %[to], %[to], #1\n"
                     "subs %[columns], %[columns], #1\n"
                     "bne 1b\n"
                     : [x] "+&l"(x), [to] "+&r"(to), [columns] "+&r"(columns)
                     : [order] "r"(order), [sixteen] "r"(sixteen), [fours] "r"(fours)
                     : "r4", "lr", "q0", "q1", "q2", "cc", "memory");
}

/* Copies input row iy, or padding, to its place; a row above the input is padding from the start. */
static void depthwise3x3_s8_mve_row(const ge_conv2d_params *p, const ge_rows *x, depthwise3x3_s8_mve_job *job,
                                    int32_t iy) {
    const int32_t right = job->pitch - p->pad_left;
    int8_t *to = job->planes + iy % 3 * job->pitch;
    if (iy < p->in_h) {
        depthwise3x3_s8_mve_copy(job, (const int8_t *)ge_row(x, iy), to + p->pad_left,
                                 right < p->in_w ? right : p->in_w);
        return;
    }
    for (int32_t c = 0; c < p->in_c; c++) {
        ge_mve_fill(to, p->in_zero_point, job->pitch);
        to += job->plane;
    }
}

/* Prepares the planes and offsets for output row y. */
static void depthwise3x3_s8_mve_see(const ge_conv2d_params *p, const ge_rows *x, depthwise3x3_s8_mve_job *job,
                                    int32_t y) {
    static const uint8_t rows[18] = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2};
    static const uint8_t columns[16] = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4};
    const int32_t top = y * p->stride_h - p->pad_top;
    for (int32_t iy = top > job->next ? top : job->next; iy < top + 3; iy++) {
        depthwise3x3_s8_mve_row(p, x, job, iy);
        job->next = iy + 1;
    }
    __asm__ volatile(
        "vldrb.8 q0, [%[rows]]\n"
        "vldrb.8 q1, [%[columns]]\n"
        "vmla.s8 q1, q0, %[pitch]\n"
        "vstrb.8 q1, [%[to]]\n"
        :
        : [rows] "r"(rows + (top % 3 + 3) % 3), [columns] "r"(columns), [pitch] "r"(job->pitch), [to] "r"(job->offsets)
        : "q0", "q1", "memory");
}

/* Computes one output row, in blocks of three pixels and of two; a row of one pixel is computed as two pixels in the
 * same place. */
static GE_NOINLINE void depthwise3x3_s8_mve_run(const ge_conv2d_params *p, depthwise3x3_s8_mve_job *job, int8_t *out) {
    int32_t left = p->out_w;
    job->x = job->planes;
    while (left > 0) {
        job->out[0] = out;
        job->out[1] = out + (p->out_w > 1 ? p->out_c : 0);
        job->out[2] = job->out[1] + p->out_c;
        const int32_t pixels = left == 3 || left > 4 ? 3 : 2;
        if (pixels == 3) {
            depthwise3x3_s8_mve_three(job);
        } else {
            depthwise3x3_s8_mve_two(job);
        }
        job->x += pixels;
        out += pixels * p->out_c;
        left -= pixels;
    }
}

static void ge_depthwise3x3_s8_mve(const ge_conv2d_params *p, const ge_rows *x, const int8_t *stream,
                                   const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t pitch = p->out_w + 2;
    depthwise3x3_s8_mve_job job = {.lo = {p->lo, p->lo, p->lo, p->lo},
                                   .hi = {p->hi, p->hi, p->hi, p->hi},
                                   .zero_point = p->out_zero_point,
                                   .stream = stream + DEPTHWISE3X3_S8_MVE_LAST,
                                   .groups = p->out_c / 4,
                                   .plane = 3 * pitch,
                                   .pitch = pitch,
                                   .planes = (int8_t *)scratch};
    ge_mve_fill(job.planes, p->in_zero_point, p->in_c * job.plane);
    for (int32_t y = first_row; y < last_row; y++) {
        depthwise3x3_s8_mve_see(p, x, &job, y);
        depthwise3x3_s8_mve_run(p, &job, (int8_t *)ge_row(out, y));
    }
}
