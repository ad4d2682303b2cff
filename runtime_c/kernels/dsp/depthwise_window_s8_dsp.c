/* Depthwise convolution of int8 [H, W, C] with any window, stride and dilation, O a multiple of C, for Cortex-M4, M7
 * and M33.
 *
 * Rows are read in place; those with padding at the sides, with several outputs per channel or with fewer than four
 * channels are copied once, padded and with one channel for each output. It computes one output row at a time, four
 * channels of an output in a block: a word of pixels and a word of weights become half-words by SXTB16, which are
 * multiplied one by one. r0 out, r1 offset in the rows, r2 stream, r3 r5 r4 r6 sums of channels 0 1 2 3, r7 a row of
 * the window, r8 r9 pixels of two taps, r10 r11 their weights, r12 lr halves. The window is unrolled; a large one has a
 * loop over its rows. Cost: 21 cycles for 8 products of two taps, 28 per 4 outputs, 2 or 3 per row of the window.
 *
 * scratch: [addresses of the rows of a window][which rows are copied][a row of padding][copied rows][outputs in fours,
 * with 1..3 channels]. It requires shift 25..32 and sums that fit 32 bits when they are shifted left by 32 - shift, or
 * the conditions of ge_isa_dsp_law.h. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

#define DEPTHWISE_WINDOW_S8_DSP_ROWS 3 /* of the window */
#define DEPTHWISE_WINDOW_S8_DSP_TAPS 3 /* taps in a row of it */
#define DEPTHWISE_WINDOW_S8_DSP_STEP 8 /* bytes from tap to tap */
#define DEPTHWISE_WINDOW_S8_DSP_UP 0   /* 32 - shift */
#define DEPTHWISE_WINDOW_S8_DSP_LOOP 0 /* 1: a loop over the rows of the window */
#define DEPTHWISE_WINDOW_S8_DSP_LAW 0  /* see ge_isa_dsp_law.h */

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const int8_t *const *rows; /* rows of the window, at the first output */
    const uint32_t
        *stream;         /* for each block: start values of the sums, 0 2 1 3; a word per tap; requantization words */
    const uint32_t *end; /* of the stream */
    int8_t *out;
    int32_t place;      /* current offset into the rows, bytes */
    int32_t pixels;     /* of the row */
    int32_t step;       /* bytes of the rows from the end of a pixel's blocks to the next pixel */
    int32_t out_step;   /* the same for the output */
    int32_t zero_point; /* of the output */
} depthwise_window_s8_dsp_job;

/* clang-format off */

/* Adds four products of the pixels in `x` and the weights in `w`. */
#define DEPTHWISE_WINDOW_S8_DSP_FOUR(x, w) \
    "    sxtb16 r12, " x "\n" \
    "    sxtb16 lr, " w "\n" \
    "    sxtb16 " x ", " x ", ror #8\n" \
    "    sxtb16 " w ", " w ", ror #8\n" \
    "    smlabb r3, r12, lr, r3\n" \
    "    smlatt r4, r12, lr, r4\n" \
    "    smlabb r5, " x ", " w ", r5\n" \
    "    smlatt r6, " x ", " w ", r6\n"

/* Sets r7 to row `ge_line` of the window. */
#define DEPTHWISE_WINDOW_S8_DSP_ROW \
    "    .if ge_rows > 5\n" \
    "    ldr.w r7, [sp, #4*0]\n" \
    "    ldr.w r7, [r7, #4*ge_line]\n" \
    "    .elseif ge_line == 0\n" \
    "    ldr.w r7, [sp, #4*9]\n" \
    "    .elseif ge_line == 1\n" \
    "    ldr.w r7, [sp, #4*10]\n" \
    "    .elseif ge_line == 2\n" \
    "    ldr.w r7, [sp, #4*11]\n" \
    "    .elseif ge_line == 3\n" \
    "    ldr.w r7, [sp, #4*12]\n" \
    "    .else\n" \
    "    ldr.w r7, [sp, #4*13]\n" \
    "    .endif\n"

/* Adds the taps of the row at r7. */
#define DEPTHWISE_WINDOW_S8_DSP_TAPS_OF_ROW \
    "    add.w r7, r7, r1\n" \
    "    .set ge_tap, 0\n" \
    "    .rept ge_taps/2\n" \
    "    ldr.w r8, [r7, #ge_tap*ge_step]\n" \
    "    ldr.w r9, [r7, #(ge_tap+1)*ge_step]\n" \
    "    ldr.w r11, [r2, #4]\n" \
    "    ldr.w r10, [r2], #8\n" \
    DEPTHWISE_WINDOW_S8_DSP_FOUR("r8", "r10") \
    DEPTHWISE_WINDOW_S8_DSP_FOUR("r9", "r11") \
    "    .set ge_tap, ge_tap+2\n" \
    "    .endr\n" \
    "    .if ge_taps%%2\n" \
    "    ldr.w r8, [r7, #ge_tap*ge_step]\n" \
    "    ldr.w r10, [r2], #4\n" \
    DEPTHWISE_WINDOW_S8_DSP_FOUR("r8", "r10") \
    "    .endif\n"

/* Computes all blocks of all pixels of the job. */
__attribute__((noinline)) static void depthwise_window_s8_dsp_row(const depthwise_window_s8_dsp_job *job) {
    register const depthwise_window_s8_dsp_job *r0 __asm__("r0") = job;
    __asm__ volatile("    .set ge_rows, %c[rows]\n"
                     "    .set ge_taps, %c[taps]\n"
                     "    .set ge_step, %c[step]\n"
                     GE_DSP_ENTER(depthwise_window_s8_dsp_row, DEPTHWISE_WINDOW_S8_DSP_LAW, "r1-r6, r8-r10")
                     "    .if ge_rows <= 5\n"
                     "    ldm.w r1, {r2-r6}\n" /* the list has five places at least */
                     "    add.w r1, sp, #4*9\n"
                     "    stm.w r1, {r2-r6}\n"
                     "    .endif\n"
                     "    ldr.w r0, [sp, #4*3]\n"
                     "    ldr.w r1, [sp, #4*4]\n"
                     "1:\n" /* a pixel */
                     "    ldr.w r2, [sp, #4*1]\n"
                     "    .balign 4\n"
                     "2:\n" /* four channels */
                     "    ldr.w r4, [r2, #4]\n"
                     "    ldr.w r5, [r2, #8]\n"
                     "    ldr.w r6, [r2, #12]\n"
                     "    ldr.w r3, [r2], #16\n"
                     "    .if %c[loop]\n"
                     "    ldr.w r9, [sp, #4*0]\n"
                     "    add.w r10, r9, #4*ge_rows\n"
                     "    str.w r10, [sp, #4*13]\n"
                     "3:\n"
                     "    ldr.w r7, [r9], #4\n"
                     "    str.w r9, [sp, #4*14]\n"
                     DEPTHWISE_WINDOW_S8_DSP_TAPS_OF_ROW
                     "    ldr.w r9, [sp, #4*14]\n"
                     "    ldr.w r10, [sp, #4*13]\n"
                     "    cmp.w r9, r10\n"
                     "    bne.w 3b\n"
                     "    .elseif ge_taps == 1\n"
                     "    ldr.w r7, [sp, #4*0]\n"
                     "    .rept ge_rows/2\n"
                     "    ldr.w r9, [r7, #4]\n"
                     "    ldr.w r8, [r7], #8\n"
                     "    ldr.w r11, [r2, #4]\n"
                     "    ldr.w r10, [r2], #8\n"
                     "    ldr.w r8, [r8, r1]\n"
                     "    ldr.w r9, [r9, r1]\n"
                     DEPTHWISE_WINDOW_S8_DSP_FOUR("r8", "r10")
                     DEPTHWISE_WINDOW_S8_DSP_FOUR("r9", "r11")
                     "    .endr\n"
                     "    .if ge_rows%%2\n"
                     "    ldr.w r8, [r7], #4\n"
                     "    ldr.w r10, [r2], #4\n"
                     "    ldr.w r8, [r8, r1]\n"
                     DEPTHWISE_WINDOW_S8_DSP_FOUR("r8", "r10")
                     "    .endif\n"
                     "    .else\n"
                     "    .set ge_line, 0\n"
                     "    .rept ge_rows\n"
                     DEPTHWISE_WINDOW_S8_DSP_ROW
                     DEPTHWISE_WINDOW_S8_DSP_TAPS_OF_ROW
                     "    .set ge_line, ge_line+1\n"
                     "    .endr\n"
                     "    .endif\n"
                     "    .if %c[law] == 0\n"
                     "    ldr.w r8, [r2, #4]\n"
                     "    ldr.w r9, [r2, #8]\n"
                     "    ldr.w r10, [r2, #12]\n"
                     "    ldr.w r7, [r2], #16\n"
                     "    ldr.w r12, [sp, #4*8]\n"
                     "    .endif\n"
                     "    .if %c[up]\n"
                     "    lsl.w r3, r3, #%c[up]\n"
                     "    lsl.w r4, r4, #%c[up]\n"
                     "    lsl.w r5, r5, #%c[up]\n"
                     "    lsl.w r6, r6, #%c[up]\n"
                     "    .endif\n"
                     "    .if %c[law] == 0\n"
                     "    smmlar r3, r3, r7, r12\n"
                     "    smmlar r5, r5, r8, r12\n"
                     "    smmlar r4, r4, r9, r12\n"
                     "    smmlar r6, r6, r10, r12\n"
                     "    .endif\n"
                     GE_DSP_LAW_ONE(DEPTHWISE_WINDOW_S8_DSP_LAW, "r2", "r3", "r8", "r9", "r10")
                     GE_DSP_LAW_ONE(DEPTHWISE_WINDOW_S8_DSP_LAW, "r2", "r5", "r8", "r9", "r10")
                     GE_DSP_LAW_ONE(DEPTHWISE_WINDOW_S8_DSP_LAW, "r2", "r4", "r8", "r9", "r10")
                     GE_DSP_LAW_ONE(DEPTHWISE_WINDOW_S8_DSP_LAW, "r2", "r6", "r8", "r9", "r10")
                     GE_DSP_LAW_SELDOM(DEPTHWISE_WINDOW_S8_DSP_LAW, "r2", "r9", "r10")
                     "    ldr.w r7, [sp, #4*2]\n"
                     "    ssat r3, #8, r3\n"
                     "    ssat r5, #8, r5\n"
                     "    ssat r4, #8, r4\n"
                     "    ssat r6, #8, r6\n"
                     "    strb.w r5, [r0, #1]\n"
                     "    strb.w r4, [r0, #2]\n"
                     "    strb.w r6, [r0, #3]\n"
                     "    strb r3, [r0], #4\n"
                     "    add.w r1, r1, #4\n"
                     "    cmp.w r2, r7\n"
                     "    bne.w 2b\n"
                     "    ldr.w r7, [sp, #4*6]\n"
                     "    ldr.w r8, [sp, #4*7]\n"
                     "    ldr.w r9, [sp, #4*5]\n"
                     "    add.w r1, r1, r7\n"
                     "    add.w r0, r0, r8\n"
                     "    subs.w r9, r9, #1\n"
                     "    str.w r9, [sp, #4*5]\n"
                     "    bne.w 1b\n"
                     GE_DSP_LEAVE
                     : "+r"(r0)
                     : [rows] "i"(DEPTHWISE_WINDOW_S8_DSP_ROWS), [taps] "i"(DEPTHWISE_WINDOW_S8_DSP_TAPS),
                       [step] "i"(DEPTHWISE_WINDOW_S8_DSP_STEP), [up] "i"(DEPTHWISE_WINDOW_S8_DSP_UP),
                       [loop] "i"(DEPTHWISE_WINDOW_S8_DSP_LOOP), [law] "i"(DEPTHWISE_WINDOW_S8_DSP_LAW)
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory" GE_DSP_LAW_CHANGES(DEPTHWISE_WINDOW_S8_DSP_LAW));
}

/* clang-format on */

/* State that all output rows share. */
typedef struct {
    const int8_t **rows;
    int8_t *outside; /* a row of padding */
    int8_t *ring;    /* input row y is in copied row y % span; NULL: rows are read in place */
    int8_t *few;     /* outputs in fours */
    int32_t pitch;   /* bytes from pixel to pixel */
    int32_t row;     /* bytes of a copied row */
    int32_t span;    /* input rows that an output row reads */
    int32_t *held;   /* number of the input row in each row of the ring; -1: none yet */
} depthwise_window_s8_dsp_space;

static depthwise_window_s8_dsp_space depthwise_window_s8_dsp_open(const ge_conv2d_params *p, void *scratch) {
    depthwise_window_s8_dsp_space s;
    const int32_t columns = (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
    const int32_t places = p->kernel_h < 5 ? 5 : p->kernel_h;
    s.pitch = p->out_c < 4 ? 4 : p->out_c;
    s.row = (columns * s.pitch + 3) & ~3;
    s.span = (p->kernel_h - 1) * p->dilation_h + 1;
    s.rows = (const int8_t **)scratch;
    s.held = (int32_t *)(void *)(s.rows + places);
    s.outside = (int8_t *)(s.held + s.span);
    s.ring = s.outside + s.row;
    s.few = s.ring + s.span * s.row;
    if (p->in_c == s.pitch && p->pad_left == 0 && columns <= p->in_w) {
        s.ring = NULL;
    }
    for (int32_t i = 0; i < s.span; i++) {
        s.held[i] = -1;
    }
    memset(s.outside, p->in_zero_point, (size_t)s.row);
    for (int32_t i = p->kernel_h; i < places; i++) {
        s.rows[i] = s.outside;
    }
    return s;
}

/* the list has at least five entries */
static void depthwise_window_s8_dsp_take(const ge_conv2d_params *p, const int8_t *x, int32_t count, int32_t pitch,
                                         int8_t *to) {
    const int32_t times = p->out_c / p->in_c;
    if (p->in_c == pitch) {
        ge_dsp_copy(to, x, count * pitch);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        int8_t *y = to + i * pitch;
        for (int32_t c = 0; c < p->in_c; c++) {
            const int8_t value = *x++;
            for (int32_t k = 0; k < times; k++) {
                *y++ = value;
            }
        }
    }
}

/* Returns input row iy with its padding, in the ring. */
static const int8_t *depthwise_window_s8_dsp_copied(const ge_conv2d_params *p, const int8_t *from,
                                                    const depthwise_window_s8_dsp_space *s, int32_t iy) {
    const int32_t slot = iy % s->span;
    int8_t *const to = s->ring + slot * s->row;
    if (s->held[slot] != iy) {
        const int32_t left = p->pad_left * s->pitch;
        const int32_t most = s->row / s->pitch - p->pad_left;
        const int32_t inside = most < p->in_w ? (most > 0 ? most : 0) : p->in_w;
        memset(to, p->in_zero_point, (size_t)(left < s->row ? left : s->row));
        depthwise_window_s8_dsp_take(p, from, inside, s->pitch, to + left);
        if (most > inside) {
            memset(to + left + inside * s->pitch, p->in_zero_point, (size_t)((most - inside) * s->pitch));
        }
        s->held[slot] = iy;
    }
    return to;
}

/* Points at the rows of the window whose first row is `top`. */
static void depthwise_window_s8_dsp_point(const ge_conv2d_params *p, const ge_rows *x,
                                          const depthwise_window_s8_dsp_space *s, int32_t top) {
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = top + ky * p->dilation_h;
        const int8_t *row = s->outside;
        if (iy >= 0 && iy < p->in_h) {
            row = (const int8_t *)ge_row(x, iy);
            row = s->ring == NULL ? row : depthwise_window_s8_dsp_copied(p, row, s, iy);
        }
        s->rows[ky] = row;
    }
}

static void ge_depthwise_window_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                       const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const depthwise_window_s8_dsp_space s = depthwise_window_s8_dsp_open(p, scratch);
    const int32_t words = GE_DSP_LAW_WORDS(DEPTHWISE_WINDOW_S8_DSP_LAW) + p->kernel_h * p->kernel_w;
    const int32_t blocks = p->out_c < 4 ? 1 : p->out_c / 4;
    const int32_t rest = p->out_c < 4 ? 0 : p->out_c % 4;
    depthwise_window_s8_dsp_job job;
    job.rows = s.rows;
    job.zero_point = p->out_zero_point;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        depthwise_window_s8_dsp_point(p, x, &s, y * p->stride_h - p->pad_top);
        job.stream = stream;
        job.out = p->out_c < 4 ? s.few : o;
        job.place = 0;
        if (rest != 0) { /* the second block overlaps the first */
            job.end = stream + words;
            job.pixels = p->out_w;
            job.step = p->stride_w * s.pitch - 4;
            job.out_step = p->out_c - 4;
            depthwise_window_s8_dsp_row(&job);
            job.stream = job.end;
            job.out = o + rest;
            job.place = rest;
        }
        job.end = job.stream + blocks * words;
        job.pixels = p->out_w;
        job.step = p->stride_w * s.pitch - 4 * blocks;
        job.out_step = p->out_c < 4 ? 0 : rest;
        depthwise_window_s8_dsp_row(&job);
        for (int32_t i = 0; p->out_c < 4 && i < p->out_w; i++) {
            for (int32_t c = 0; c < p->out_c; c++) {
                o[i * p->out_c + c] = s.few[4 * i + c];
            }
        }
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(o, p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}
