/* 3x3 convolution, stride 1, of int8 [H, W, C] for Cortex-M4, M7 and M33 by Winograd's F(2x2, 3x3), in integers.
 *
 * A tile is 2x2 outputs, from 4x4 inputs d: V = B' d B. Weights were transformed when the bundle was made, with twice
 * the usual matrix: U = 2G g (2G)' is integers. Y = A' (sum over channels of U * V) A is exactly four times the
 * convolution (Lavin and Gray, 2015, with G doubled), so an arithmetic shift by 2 is exact: the bits are those of any
 * other kernel, with 16 products instead of 36 for 4 outputs of a channel. |U| <= 1143 and |V| <= 512 fit int16. Sums
 * may wrap; four times the result must not, which `glowembed compile` proves for each channel.
 *
 * The vertical half of V is computed for four channels of a column of pixels at a time, the horizontal half for four
 * channels of a tile. Products: 4 channels x 2 tiles, for one of the 16 places after another: r0 weights, r1 V, r2-r5
 * sums of the one tile, r6-r9 of the other, r10 r11 weights, r12 lr V. Cost: 16 cycles for 16 products; the 8 sums of
 * each place go to scratch. Then for each tile and channel: r0 sums, r1 bias and multiplier, r2-r5 the outputs, r6-r9 a
 * row of sums, r10 r11 addresses of the upper and lower outputs, r12 multiplier, lr zero point. Cost: 67 cycles for 4
 * outputs. Where the image ends in the middle of a tile, that tile overlaps the one before and computes some outputs
 * twice.
 *
 * scratch: [16 x 8 sums][row of zero points][vertical halves][V of some tiles]. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

#define CONV2D_WINOGRAD_S8_DSP_IN 16    /* channels, a multiple of 4 */
#define CONV2D_WINOGRAD_S8_DSP_OUT 16   /* channels: bytes from output to output */
#define CONV2D_WINOGRAD_S8_DSP_TILES 8  /* tiles whose V is kept, even */
#define CONV2D_WINOGRAD_S8_DSP_UNROLL 7 /* steps in the loop of products; the first one is before it */
#define CONV2D_WINOGRAD_S8_DSP_UP 0     /* 32 - shift */

#define CONV2D_WINOGRAD_S8_DSP_SUMS 128 /* words */
#define CONV2D_WINOGRAD_S8_DSP_STEPS (CONV2D_WINOGRAD_S8_DSP_IN / 2)
#define CONV2D_WINOGRAD_S8_DSP_PAIR (32 * CONV2D_WINOGRAD_S8_DSP_STEPS) /* words of V for two tiles */
#define CONV2D_WINOGRAD_S8_DSP_COLUMN 8 /* words of a column's vertical half: 4 rows x (channels 0 and 2, 1 and 3) */

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const int8_t *rows[4];
    int32_t bytes; /* bytes of a row from the first column to the end of the last one */
    uint32_t *to;
} conv2d_winograd_s8_dsp_columns_job;

/* Transforms four channels of some columns: (d0 - d2, d1 + d2, d2 - d1, d1 - d3). Cost: 36 cycles per column. r0-r3
 * rows, r4 offset of the column, r5-r8 pixels, r9-r12 channels 0 and 2, lr `to`. */
__attribute__((noinline)) static void conv2d_winograd_s8_dsp_columns(const conv2d_winograd_s8_dsp_columns_job *job) {
    register const conv2d_winograd_s8_dsp_columns_job *r0 __asm__("r0") = job;
    /* clang-format off */
    __asm__ volatile(
        GE_DSP_ENTER(conv2d_winograd_s8_dsp_columns, 0, "r1-r6")
        "    ldr.w r0, [sp, #4*0]\n"
        "    ldr.w r1, [sp, #4*1]\n"
        "    ldr.w r2, [sp, #4*2]\n"
        "    ldr.w r3, [sp, #4*3]\n"
        "    ldr.w lr, [sp, #4*5]\n"
        "    mov.w r4, #0\n"
        "    .balign 4\n"
        "1:\n"
        "    ldr.w r5, [r0, r4]\n"
        "    ldr.w r6, [r1, r4]\n"
        "    ldr.w r7, [r2, r4]\n"
        "    ldr.w r8, [r3, r4]\n"
        "    add.w r4, r4, #%c[step]\n"
        "    sxtb16 r9, r5\n"
        "    sxtb16 r10, r6\n"
        "    sxtb16 r11, r7\n"
        "    sxtb16 r12, r8\n"
        "    ssub16 r9, r9, r11\n"
        "    ssub16 r12, r10, r12\n"
        "    str.w r9, [lr], #4\n"
        "    sadd16 r9, r10, r11\n"
        "    ssub16 r11, r11, r10\n"
        "    str.w r12, [lr, #20]\n"
        "    sxtb16 r5, r5, ror #8\n"
        "    sxtb16 r6, r6, ror #8\n"
        "    str.w r9, [lr, #4]\n"
        "    sxtb16 r7, r7, ror #8\n"
        "    sxtb16 r8, r8, ror #8\n"
        "    str.w r11, [lr, #12]\n"
        "    ssub16 r5, r5, r7\n"
        "    ssub16 r8, r6, r8\n"
        "    sadd16 r9, r6, r7\n"
        "    ssub16 r7, r7, r6\n"
        "    ldr.w r12, [sp, #4*4]\n"
        "    str.w r5, [lr]\n"
        "    str.w r9, [lr, #8]\n"
        "    str.w r7, [lr, #16]\n"
        "    str.w r8, [lr, #24]\n"
        "    add.w lr, lr, #28\n"
        "    cmp.w r4, r12\n"
        "    bne.w 1b\n"
        GE_DSP_LEAVE
        : "+r"(r0)
        : [step] "i"(CONV2D_WINOGRAD_S8_DSP_IN)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
    /* clang-format on */
}

/* Transforms four channels of one tile: (t0 - t2, t1 + t2, t2 - t1, t1 - t3) of each row of the vertical halves. Cost:
 * 128 cycles. `to`: the address in the first of the 16 places for these channels of this tile. */
static inline void conv2d_winograd_s8_dsp_tile(const uint32_t *column, uint32_t *to) {
    uint32_t a, b, c, d, t;
    const uint32_t *const end = column + CONV2D_WINOGRAD_S8_DSP_COLUMN;
    /* clang-format off */
    __asm__ volatile(
        "    .balign 4\n"
        "1:\n"
        "    .set ge_at, 0\n"
        "    .rept 2\n"
        "    ldr.w %[b], [%[x], #ge_at+32]\n"
        "    ldr.w %[c], [%[x], #ge_at+64]\n"
        "    ldr.w %[d], [%[x], #ge_at+96]\n"
        "    ldr.w %[a], [%[x], #ge_at]\n"
        "    sadd16 %[t], %[b], %[c]\n"
        "    ssub16 %[d], %[b], %[d]\n"
        "    ssub16 %[a], %[a], %[c]\n"
        "    ssub16 %[c], %[c], %[b]\n"
        "    str.w %[a], [%[y], #2*ge_at]\n"
        "    str.w %[t], [%[y], #2*ge_at+%c[place]]\n"
        "    str.w %[c], [%[y], #2*ge_at+2*%c[place]]\n"
        "    str.w %[d], [%[y], #2*ge_at+3*%c[place]]\n"
        "    .set ge_at, ge_at+4\n"
        "    .endr\n"
        "    add.w %[x], %[x], #8\n"
        "    addw %[y], %[y], #4*%c[place]\n"
        "    cmp.w %[x], %[end]\n"
        "    bne.w 1b\n"
        : [x] "+&r"(column), [y] "+&r"(to), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d), [t] "=&r"(t)
        : [end] "r"(end), [place] "i"(8 * CONV2D_WINOGRAD_S8_DSP_STEPS)
        : "cc", "memory");
    /* clang-format on */
}

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const uint32_t *v;
    uint32_t *sums;
    const uint32_t *w; /* for each group: 16 places x pairs of channels x 4 weights, then 4 x (4 * bias, multiplier) */
    int32_t groups;    /* groups of four channels */
    int32_t zero_point;
    int8_t *upper[2]; /* addresses of the upper two outputs of both tiles */
    int8_t *lower[2];
} conv2d_winograd_s8_dsp_job;

/* Computes all channels of two tiles. The first tile is written last, and upper rows after lower ones, so both tiles,
 * and both rows, may have the same address. */
__attribute__((noinline)) static void conv2d_winograd_s8_dsp_products(const conv2d_winograd_s8_dsp_job *job) {
    register const conv2d_winograd_s8_dsp_job *r0 __asm__("r0") = job;
    /* clang-format off */
    __asm__ volatile(
        "    .set ge_steps, %c[steps]\n"
        "    .set ge_unroll, %c[unroll]\n"
        "    .set ge_up, %c[up]\n"
        "    .set ge_turns, (ge_steps-1)/ge_unroll\n"
        "    .set ge_rest, (ge_steps-1)-ge_turns*ge_unroll\n"
        GE_DSP_ENTER(conv2d_winograd_s8_dsp_products, 0, "r1-r6, r8-r10")
        "    ldr.w r0, [sp, #4*2]\n"
        "    .balign 4\n"
        "1:\n" /* four channels */
        "    ldr.w r12, [sp, #4*1]\n"
        "    ldr.w r1, [sp, #4*0]\n"
        "    add.w lr, r12, #512\n"
        "    str.w r12, [sp, #4*10]\n"
        "    str.w lr, [sp, #4*11]\n"
        "    .if ge_steps > ge_unroll+1\n"
        "    str.w r0, [sp, #4*12]\n"
        "    .endif\n"
        "    .balign 4\n"
        "2:\n" /* one of the 16 places; the first step begins the sums */
        "    .if ge_steps > ge_unroll+1\n"
        "    ldr.w r12, [sp, #4*12]\n"
        "    addw r12, r12, #16*ge_steps\n"
        "    str.w r12, [sp, #4*12]\n"
        "    .endif\n"
        "    ldr.w r11, [r0, #4]\n"
        "    ldr.w r10, [r0], #8\n"
        "    ldr.w lr, [r1, #4]\n"
        "    ldr.w r12, [r1], #8\n"
        "    smuad r2, r10, r12\n"
        "    smuad r6, r10, lr\n"
        "    smuad r3, r11, r12\n"
        "    smuad r7, r11, lr\n"
        "    ldr.w r11, [r0, #4]\n"
        "    ldr.w r10, [r0], #8\n"
        "    smuad r4, r10, r12\n"
        "    smuad r8, r10, lr\n"
        "    smuad r5, r11, r12\n"
        "    smuad r9, r11, lr\n"
        "    .if ge_rest && ge_turns\n"
        "    b.w 3f + (ge_unroll-ge_rest)*56\n"
        "    .endif\n"
        "3:\n"
        "    .rept ge_unroll\n"
        "    ldr.w r11, [r0, #4]\n"
        "    ldr.w r10, [r0], #8\n"
        "    ldr.w lr, [r1, #4]\n"
        "    ldr.w r12, [r1], #8\n"
        "    smlad r2, r10, r12, r2\n"
        "    smlad r6, r10, lr, r6\n"
        "    smlad r3, r11, r12, r3\n"
        "    smlad r7, r11, lr, r7\n"
        "    ldr.w r11, [r0, #4]\n"
        "    ldr.w r10, [r0], #8\n"
        "    smlad r4, r10, r12, r4\n"
        "    smlad r8, r10, lr, r8\n"
        "    smlad r5, r11, r12, r5\n"
        "    smlad r9, r11, lr, r9\n"
        "    .endr\n"
        "    .if ge_steps > ge_unroll+1\n"
        "    ldr.w r12, [sp, #4*12]\n"
        "    cmp.w r0, r12\n"
        "    bne.w 3b\n"
        "    .endif\n"
        "    ldr.w r12, [sp, #4*10]\n"
        "    ldr.w lr, [sp, #4*11]\n"
        "    stmia.w r12!, {r2-r9}\n"
        "    cmp.w r12, lr\n"
        "    str.w r12, [sp, #4*10]\n"
        "    bne.w 2b\n"

        "    ldr.w r10, [sp, #4*6]\n" /* the second tile */
        "    ldr.w r11, [sp, #4*8]\n"
        "    ldr.w r12, [sp, #4*1]\n"
        "    add.w r1, r0, #32\n"
        "    str.w r1, [sp, #4*10]\n"
        "    str.w r0, [sp, #4*11]\n"
        "    mov.w r1, r0\n"
        "    add.w r0, r12, #16\n"
        "    .balign 4\n"
        "4:\n" /* a channel of a tile */
        "    ldr.w r2, [r0]\n"
        "    ldr.w r3, [r0, #32]\n"
        "    ldr.w r8, [r0, #64]\n"
        "    ldr.w r9, [r0, #96]\n"
        "    add.w r2, r2, r3\n"
        "    sub.w r3, r3, r8\n"
        "    add.w r2, r2, r8\n"
        "    sub.w r3, r3, r9\n"
        "    ldr.w r6, [r0, #128]\n"
        "    ldr.w r7, [r0, #160]\n"
        "    ldr.w r8, [r0, #192]\n"
        "    ldr.w r9, [r0, #224]\n"
        "    ldr.w r12, [r1, #4]\n"
        "    ldr.w lr, [r1], #8\n"
        "    add.w r7, r7, lr\n" /* four times the bias: this place counts once in each output */
        "    add.w r4, r6, r7\n"
        "    sub.w r5, r7, r8\n"
        "    add.w r4, r4, r8\n"
        "    sub.w r5, r5, r9\n"
        "    ldr.w r6, [r0, #256]\n"
        "    ldr.w r7, [r0, #288]\n"
        "    ldr.w r8, [r0, #320]\n"
        "    ldr.w r9, [r0, #352]\n"
        "    add.w r2, r2, r4\n"
        "    add.w r3, r3, r5\n"
        "    add.w r6, r6, r7\n"
        "    sub.w r7, r7, r8\n"
        "    add.w r6, r6, r8\n"
        "    sub.w r7, r7, r9\n"
        "    add.w r2, r2, r6\n"
        "    sub.w r4, r4, r6\n"
        "    add.w r3, r3, r7\n"
        "    sub.w r5, r5, r7\n"
        "    ldr.w r6, [r0, #384]\n"
        "    ldr.w r7, [r0, #416]\n"
        "    ldr.w r8, [r0, #448]\n"
        "    ldr.w r9, [r0, #480]\n"
        "    ldr.w lr, [sp, #4*4]\n"
        "    sub.w r4, r4, r6\n"
        "    sub.w r4, r4, r7\n"
        "    sub.w r4, r4, r8\n"
        "    sub.w r5, r5, r7\n"
        "    add.w r5, r5, r8\n"
        "    add.w r5, r5, r9\n"
        "    .if ge_up < 2\n"
        "    asr.w r2, r2, #2-ge_up\n"
        "    asr.w r3, r3, #2-ge_up\n"
        "    asr.w r4, r4, #2-ge_up\n"
        "    asr.w r5, r5, #2-ge_up\n"
        "    .endif\n"
        "    .if ge_up > 2\n"
        "    lsl.w r2, r2, #ge_up-2\n"
        "    lsl.w r3, r3, #ge_up-2\n"
        "    lsl.w r4, r4, #ge_up-2\n"
        "    lsl.w r5, r5, #ge_up-2\n"
        "    .endif\n"
        "    smmlar r2, r2, r12, lr\n"
        "    smmlar r3, r3, r12, lr\n"
        "    smmlar r4, r4, r12, lr\n"
        "    smmlar r5, r5, r12, lr\n"
        "    ldr.w r12, [sp, #4*10]\n"
        "    add.w r0, r0, #4\n"
        "    ssat r2, #8, r2\n"
        "    ssat r3, #8, r3\n"
        "    ssat r4, #8, r4\n"
        "    ssat r5, #8, r5\n"
        "    cmp.w r1, r12\n"
        "    strb.w r5, [r11, #%c[out]]\n"
        "    strb r4, [r11], #1\n"
        "    strb.w r3, [r10, #%c[out]]\n"
        "    strb r2, [r10], #1\n"
        "    bne.w 4b\n"
        "    ldr.w r12, [sp, #4*1]\n"
        "    sub.w r0, r0, #32\n" /* the second tile's sums end 32 bytes after the start, the first tile's 16 */
        "    cmp.w r0, r12\n"
        "    bne.w 5f\n"
        "    str.w r10, [sp, #4*6]\n"
        "    str.w r11, [sp, #4*8]\n"
        "    ldr.w r10, [sp, #4*5]\n"
        "    ldr.w r11, [sp, #4*7]\n"
        "    ldr.w r1, [sp, #4*11]\n"
        "    b.w 4b\n"
        "5:\n"
        "    str.w r10, [sp, #4*5]\n"
        "    str.w r11, [sp, #4*7]\n"
        "    mov.w r0, r1\n" /* the next group begins where this one ends */
        "    ldr.w r12, [sp, #4*3]\n"
        "    subs.w r12, r12, #1\n"
        "    str.w r12, [sp, #4*3]\n"
        "    bne.w 1b\n"
        GE_DSP_LEAVE
        : "+r"(r0)
        : [steps] "i"(CONV2D_WINOGRAD_S8_DSP_STEPS), [unroll] "i"(CONV2D_WINOGRAD_S8_DSP_UNROLL),
          [out] "i"(CONV2D_WINOGRAD_S8_DSP_OUT), [up] "i"(CONV2D_WINOGRAD_S8_DSP_UP)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
    /* clang-format on */
}

/* Writes columns of padding. */
static void conv2d_winograd_s8_dsp_padding(const ge_conv2d_params *p, int32_t count, uint32_t *to) {
    const uint32_t twice = (uint32_t)(2 * p->in_zero_point) & 0xFFFFu;
    for (int32_t i = 0; i < count; i++) {
        for (int32_t k = 0; k < CONV2D_WINOGRAD_S8_DSP_COLUMN; k++) {
            to[k] = k == 2 || k == 3 ? twice | twice << 16 : 0u;
        }
        to += CONV2D_WINOGRAD_S8_DSP_COLUMN;
    }
}

/* Computes the vertical halves of the four channels from `channel` on, `count` columns from `first` on. A row that is
 * NULL is padding. */
static void conv2d_winograd_s8_dsp_vertical(const ge_conv2d_params *p, const int8_t *const *rows, const int8_t *zeros,
                                            int32_t channel, int32_t first, int32_t count, uint32_t *to) {
    const int32_t begin = first < 0 ? 0 : first;
    const int32_t end = first + count < p->in_w ? first + count : p->in_w;
    if (begin >= end) {
        conv2d_winograd_s8_dsp_padding(p, count, to);
        return;
    }
    conv2d_winograd_s8_dsp_columns_job job;
    for (int32_t i = 0; i < 4; i++) {
        job.rows[i] = rows[i] != NULL ? rows[i] + begin * CONV2D_WINOGRAD_S8_DSP_IN + channel : zeros;
    }
    job.bytes = (end - begin) * CONV2D_WINOGRAD_S8_DSP_IN;
    job.to = to + (begin - first) * CONV2D_WINOGRAD_S8_DSP_COLUMN;
    conv2d_winograd_s8_dsp_padding(p, begin - first, to);
    conv2d_winograd_s8_dsp_columns(&job);
    conv2d_winograd_s8_dsp_padding(p, first + count - end, to + (end - first) * CONV2D_WINOGRAD_S8_DSP_COLUMN);
}

/* Returns the column where tile `tile` of a row of tiles begins. */
static int32_t conv2d_winograd_s8_dsp_at(const ge_conv2d_params *p, int32_t tile) {
    return 2 * tile + 2 <= p->out_w ? 2 * tile : p->out_w - 2;
}

/* Computes all channels of tiles first and first + 1 of a row; `last` is the row's last tile. */
static void conv2d_winograd_s8_dsp_pair(const ge_conv2d_params *p, const uint32_t *stream, const uint32_t *v,
                                        int8_t *upper, int8_t *lower, int32_t first, int32_t last, uint32_t *sums) {
    const int32_t a = conv2d_winograd_s8_dsp_at(p, first) * CONV2D_WINOGRAD_S8_DSP_OUT;
    const int32_t b = first < last ? conv2d_winograd_s8_dsp_at(p, first + 1) * CONV2D_WINOGRAD_S8_DSP_OUT : a;
    const int32_t rest = CONV2D_WINOGRAD_S8_DSP_OUT & 3;
    conv2d_winograd_s8_dsp_job job = {v,
                                      sums,
                                      stream,
                                      CONV2D_WINOGRAD_S8_DSP_OUT / 4,
                                      p->out_zero_point,
                                      {upper + a, upper + b},
                                      {lower + a, lower + b}};
    if (rest != 0) {
        job.groups = 1;
        conv2d_winograd_s8_dsp_products(&job);
        job.w += 64 * CONV2D_WINOGRAD_S8_DSP_STEPS + 8;
        job.groups = CONV2D_WINOGRAD_S8_DSP_OUT / 4;
        for (int32_t i = 0; i < 2; i++) {
            job.upper[i] += rest;
            job.lower[i] += rest;
        }
    }
    conv2d_winograd_s8_dsp_products(&job);
}

/* Computes output row y, and the next one too where `lower` is not `upper`. */
__attribute__((noinline)) static void conv2d_winograd_s8_dsp_rows(const ge_conv2d_params *p, const ge_rows *x,
                                                                  const uint32_t *stream, int32_t y, int8_t *upper,
                                                                  int8_t *lower, uint32_t *sums) {
    int8_t *const zeros = (int8_t *)(sums + CONV2D_WINOGRAD_S8_DSP_SUMS);
    const int32_t width = 2 * CONV2D_WINOGRAD_S8_DSP_TILES + 2;
    uint32_t *const columns = sums + CONV2D_WINOGRAD_S8_DSP_SUMS + width * CONV2D_WINOGRAD_S8_DSP_IN / 4;
    uint32_t *const v = columns + width * CONV2D_WINOGRAD_S8_DSP_COLUMN;
    const int32_t tiles = (p->out_w + 1) / 2;
    const int8_t *rows[4];
    memset(zeros, p->in_zero_point, (size_t)(width * CONV2D_WINOGRAD_S8_DSP_IN));
    for (int32_t i = 0; i < 4; i++) {
        const int32_t iy = y - p->pad_top + i;
        const int32_t wanted = i < 3 || lower != upper;
        rows[i] = wanted && iy >= 0 && iy < p->in_h ? (const int8_t *)ge_row(x, iy) : NULL;
    }
    int32_t count = 0;
    for (int32_t tile = 0; tile < tiles; tile += count) {
        count = tiles - tile < CONV2D_WINOGRAD_S8_DSP_TILES ? tiles - tile : CONV2D_WINOGRAD_S8_DSP_TILES;
        const int32_t first = conv2d_winograd_s8_dsp_at(p, tile);
        const int32_t span = conv2d_winograd_s8_dsp_at(p, tile + count - 1) + 4 - first;
        for (int32_t c = 0; c < CONV2D_WINOGRAD_S8_DSP_IN; c += 4) {
            conv2d_winograd_s8_dsp_vertical(p, rows, zeros, c, first - p->pad_left, span, columns);
            for (int32_t i = 0; i < count; i++) {
                const int32_t at = conv2d_winograd_s8_dsp_at(p, tile + i) - first;
                conv2d_winograd_s8_dsp_tile(columns + at * CONV2D_WINOGRAD_S8_DSP_COLUMN,
                                            v + (i >> 1) * CONV2D_WINOGRAD_S8_DSP_PAIR + c + (i & 1));
            }
        }
        for (int32_t i = 0; i < count; i += 2) {
            conv2d_winograd_s8_dsp_pair(p, stream, v + (i >> 1) * CONV2D_WINOGRAD_S8_DSP_PAIR, upper, lower, tile + i,
                                        tile + count - 1, sums);
        }
    }
}

static void ge_conv2d_winograd_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                      const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    for (int32_t y = first_row; y < last_row; y += 2) {
        int8_t *const upper = (int8_t *)ge_row(out, y);
        int8_t *const lower = y + 1 < last_row ? (int8_t *)ge_row(out, y + 1) : upper;
        conv2d_winograd_s8_dsp_rows(p, x, stream, y, upper, lower, (uint32_t *)scratch);
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(upper, p->out_w * p->out_c, p->lo, p->hi);
            ge_dsp_clamp(lower, p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}
