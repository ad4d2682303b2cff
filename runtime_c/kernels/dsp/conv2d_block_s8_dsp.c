/* Convolution of int8 [H, W, C] with any window, stride, dilation and group, depthwise too, for Cortex-M4, M7 and M33.
 *
 * It computes a block of pixels of one output channel at a time, so any number of channels is used without waste: for
 * layers with few outputs per group. Rows are read in place; with padding they are copied once, padded. Pixels of a
 * block are spaced so that each shares inputs with its neighbours, also where taps are not adjacent: with a dilation of
 * d, a block takes every d-th pixel. Either one input channel is processed at a time (WORDS 0), and each of its pixels
 * is loaded once for all taps of a row that use it; or four channels of a tap (WORDS 1), and a word becomes half-words
 * for two products per instruction. In narrow images a block extends downwards (DOWN 1): then what is said here of rows
 * holds for columns. r0 stream, r1 a row, r2.. outputs, r10 r11 weights, r12 lr and those of r8 r9 r11 that are free:
 * pixels. Cost: with rows of 3 taps and 8 pixels 42 cycles for 24 products, of 1 tap 21 for 8, with WORDS 42 for 28; 4
 * per output.
 *
 * scratch: [addresses of the rows of a window][which rows are copied][a row of padding][copied rows]; with DOWN
 * [addresses of the columns of a window][copied rows][rows of outputs]. It requires shift 25..32 and sums that fit 32
 * bits when they are shifted left by 32 - shift. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

#define CONV2D_BLOCK_S8_DSP_PIXELS 8 /* of a block */
#define CONV2D_BLOCK_S8_DSP_ROWS 3   /* of the window */
#define CONV2D_BLOCK_S8_DSP_TAPS 3   /* taps in a row of it */
#define CONV2D_BLOCK_S8_DSP_TAP 8    /* bytes from tap to tap */
#define CONV2D_BLOCK_S8_DSP_PIXEL 8  /* bytes from pixel to pixel of a block */
#define CONV2D_BLOCK_S8_DSP_RATIO 1  /* taps from pixel to pixel; 0: they share none */
#define CONV2D_BLOCK_S8_DSP_OUT 8    /* bytes from output to output of a block */
#define CONV2D_BLOCK_S8_DSP_DEPTH 1  /* channels in of a group */
#define CONV2D_BLOCK_S8_DSP_OUTS 1   /* channels out of a group */
#define CONV2D_BLOCK_S8_DSP_WORDS 0  /* 1: four channels in at a time */
#define CONV2D_BLOCK_S8_DSP_DEEP 0   /* 1: no loop over the input channels of a row of the window */
#define CONV2D_BLOCK_S8_DSP_LOOP 0   /* 1: a loop over the rows of the window */
#define CONV2D_BLOCK_S8_DSP_UP 0     /* 32 - shift */
#define CONV2D_BLOCK_S8_DSP_DOWN 0   /* 1: blocks extend downwards */
#define CONV2D_BLOCK_S8_DSP_STEP 0   /* with DOWN: bytes of the input from block to block */
#define CONV2D_BLOCK_S8_DSP_NEXT 0   /* the same for the output */

#define CONV2D_BLOCK_S8_DSP_PLACES 3 /* number of row addresses that are kept in the frame */

/* Job of the loop; the order of its words is that of the frame. */
typedef struct {
    const int8_t *const *rows; /* of the window */
    const uint32_t *stream;    /* for each output channel: bias; for each unit of depth and row, its taps; multiplier */
    int8_t *out;
    int32_t place;  /* current offset into the rows, bytes */
    int32_t pixels; /* pixels of the row, at least PIXELS; with DOWN the number of blocks */
    int32_t groups;
    int32_t zero_point; /* of the output */
} conv2d_block_s8_dsp_job;

/* clang-format off */

/* Expands `text` for each pixel of the block; \ge_y is its register. */
#define CONV2D_BLOCK_S8_DSP_EACH(text) \
    "    .irp ge_y, 2, 3, 4, 5, 6, 7, 8, 9\n" \
    "    .if \\ge_y < ge_pixels+2\n" \
    text \
    "    .endif\n" \
    "    .endr\n"

/* Applies tap `t` of the taps from ge_first on to pixel ge_i of the row. */
#define CONV2D_BLOCK_S8_DSP_TAP_OF(x, t, instruction, w) \
    "    .if ge_first+" t " < ge_last\n" \
    "    .irp ge_y, 2, 3, 4, 5, 6, 7, 8, 9\n" \
    "    .if (\\ge_y < ge_pixels+2) && ((ge_ratio && (ge_i-" t " == (\\ge_y-2)*ge_ratio)) || " \
        "(!ge_ratio && (ge_i-" t " == (\\ge_y-2)*ge_count)))\n" \
    "    " instruction " r\\ge_y, " x ", " w ", r\\ge_y\n" \
    "    .endif\n" \
    "    .endr\n" \
    "    .endif\n"

/* Applies all taps to pixel ge_i of the row, which is in `x`: weights (w0, w2) and (w1, w3), or (w0, w1) where there
 * are two. */
#define CONV2D_BLOCK_S8_DSP_PIXEL_OF(x) \
    "    .if ge_i < ge_loads\n" \
    CONV2D_BLOCK_S8_DSP_TAP_OF(x, "0", "smlabb", "r10") \
    "    .if ge_count > 2\n" \
    CONV2D_BLOCK_S8_DSP_TAP_OF(x, "1", "smlabb", "r11") \
    CONV2D_BLOCK_S8_DSP_TAP_OF(x, "2", "smlabt", "r10") \
    CONV2D_BLOCK_S8_DSP_TAP_OF(x, "3", "smlabt", "r11") \
    "    .else\n" \
    CONV2D_BLOCK_S8_DSP_TAP_OF(x, "1", "smlabt", "r10") \
    "    .endif\n" \
    "    .endif\n" \
    "    .set ge_i, ge_i+1\n"

#define CONV2D_BLOCK_S8_DSP_LOAD(x) \
    "    .if ge_ahead < ge_loads\n" \
    "    .if ge_ratio\n" \
    "    ldrsb.w " x ", [r1, #ge_deep+(ge_first+ge_ahead)*ge_tap]\n" \
    "    .else\n" \
    "    ldrsb.w " x ", [r1, #ge_deep+ge_ahead/ge_count*ge_pixel+(ge_first+ge_ahead%%ge_count)*ge_tap]\n" \
    "    .endif\n" \
    "    .endif\n" \
    "    .set ge_ahead, ge_ahead+1\n"

/* Expands `macro` for each register that is free for a pixel. */
#define CONV2D_BLOCK_S8_DSP_FREE(macro) \
    macro("r12") \
    macro("lr") \
    "    .if ge_count < 3\n" \
    macro("r11") \
    "    .endif\n" \
    "    .if ge_pixels < 8\n" \
    macro("r9") \
    "    .endif\n" \
    "    .if ge_pixels < 7\n" \
    macro("r8") \
    "    .endif\n"

/* A row of the window, one channel: at most four taps at a time. */
#define CONV2D_BLOCK_S8_DSP_ROW_OF_BYTES \
    "    .set ge_chunks, (ge_taps+3)/4\n" \
    "    .set ge_chunk, 0\n" \
    "    .rept ge_chunks\n" \
    "    .set ge_first, ge_chunk*ge_taps/ge_chunks\n" \
    "    .set ge_chunk, ge_chunk+1\n" \
    "    .set ge_last, ge_chunk*ge_taps/ge_chunks\n" \
    "    .set ge_count, ge_last-ge_first\n" \
    "    .if ge_ratio\n" \
    "    .set ge_loads, ge_ratio*(ge_pixels-1)+ge_count\n" \
    "    .else\n" \
    "    .set ge_loads, ge_pixels*ge_count\n" \
    "    .endif\n" \
    "    .set ge_burst, 2\n" \
    "    .if ge_pixels < 8\n" \
    "    .set ge_burst, 3\n" \
    "    .endif\n" \
    "    .if ge_pixels < 7\n" \
    "    .set ge_burst, 4\n" \
    "    .endif\n" \
    "    ldr.w r10, [r0], #4\n" \
    "    .if ge_count > 2\n" \
    "    sxtb16 r11, r10, ror #8\n" \
    "    sxtb16 r10, r10\n" \
    "    .else\n" \
    "    .set ge_burst, ge_burst+1\n" \
    "    .endif\n" \
    "    .set ge_i, 0\n" \
    "    .rept (ge_loads+ge_burst-1)/ge_burst\n" \
    "    .set ge_ahead, ge_i\n" \
    CONV2D_BLOCK_S8_DSP_FREE(CONV2D_BLOCK_S8_DSP_LOAD) \
    CONV2D_BLOCK_S8_DSP_FREE(CONV2D_BLOCK_S8_DSP_PIXEL_OF) \
    "    .endr\n" \
    "    .endr\n"

/* A row of the window, four channels: one tap after another. */
#define CONV2D_BLOCK_S8_DSP_ROW_OF_WORDS \
    "    .set ge_chunk, 0\n" \
    "    .rept ge_taps\n" \
    "    ldr.w r10, [r0], #4\n" \
    "    ldr.w r12, [r1, #ge_deep+ge_chunk*ge_tap]\n" \
    "    sxtb16 r11, r10, ror #8\n" \
    "    sxtb16 r10, r10\n" \
    "    .irp ge_y, 2, 3, 4, 5, 6, 7, 8\n" \
    "    .if \\ge_y < ge_pixels+2\n" \
    "    .if (\\ge_y > 2) && ((\\ge_y & 1) == 1)\n" \
    "    ldr.w r12, [r1, #ge_deep+ge_chunk*ge_tap+(\\ge_y-2)*ge_pixel]\n" \
    "    .if \\ge_y+1 < ge_pixels+2\n" \
    "    ldr.w r9, [r1, #ge_deep+ge_chunk*ge_tap+(\\ge_y-1)*ge_pixel]\n" \
    "    .endif\n" \
    "    .endif\n" \
    "    .if (\\ge_y == 2) || ((\\ge_y & 1) == 1)\n" \
    "    sxtb16 lr, r12\n" \
    "    sxtb16 r12, r12, ror #8\n" \
    "    smlad r\\ge_y, lr, r10, r\\ge_y\n" \
    "    smlad r\\ge_y, r12, r11, r\\ge_y\n" \
    "    .else\n" \
    "    sxtb16 lr, r9\n" \
    "    sxtb16 r9, r9, ror #8\n" \
    "    smlad r\\ge_y, lr, r10, r\\ge_y\n" \
    "    smlad r\\ge_y, r9, r11, r\\ge_y\n" \
    "    .endif\n" \
    "    .endif\n" \
    "    .endr\n" \
    "    .set ge_chunk, ge_chunk+1\n" \
    "    .endr\n"

/* Sets r1 to the row of the window. */
#define CONV2D_BLOCK_S8_DSP_ROW \
    "    ldr.w r12, [sp, #4*13]\n" \
    "    add.w r1, r1, r12\n" \
    "    .set ge_deep, 0\n" \
    "    .rept ge_within\n" \
    "    .if ge_words\n" \
    CONV2D_BLOCK_S8_DSP_ROW_OF_WORDS \
    "    .if ge_deep == 0\n" \
    "    .set ge_deep, -ge_twice\n" \
    "    .endif\n" \
    "    .else\n" \
    CONV2D_BLOCK_S8_DSP_ROW_OF_BYTES \
    "    .endif\n" \
    "    .set ge_deep, ge_deep+ge_unit\n" \
    "    .endr\n"

/* Computes all channels of `blocks` consecutive blocks. */
__attribute__((noinline)) static void conv2d_block_s8_dsp_blocks(const conv2d_block_s8_dsp_job *job) {
    register const conv2d_block_s8_dsp_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        "    .set ge_pixels, %c[pixels]\n"
        "    .set ge_rows, %c[rows]\n"
        "    .set ge_taps, %c[taps]\n"
        "    .set ge_tap, %c[tap]\n"
        "    .set ge_pixel, %c[pixel]\n"
        "    .set ge_ratio, %c[ratio]\n"
        "    .set ge_out, %c[out]\n"
        "    .set ge_depth, %c[depth]\n"
        "    .set ge_outs, %c[outs]\n"
        "    .set ge_words, %c[words]\n"
        "    .set ge_up, %c[up]\n"
        "    .set ge_unit, 1+3*ge_words\n"
        "    .set ge_units, (ge_depth+ge_unit-1)/ge_unit\n"
        "    .if %c[deep]\n"
        "    .set ge_within, ge_units\n"
        "    .else\n"
        "    .set ge_within, 1\n"
        "    .endif\n"
        "    .set ge_loops, ge_units/ge_within\n"
        "    .set ge_twice, ge_units*ge_unit-ge_depth\n" /* channels that the second unit reads a second time */
        GE_DSP_ENTER(conv2d_block_s8_dsp_blocks, 0, "r1-r6, r8")
        "    .if !%c[loop] && ge_rows <= 3\n"
        "    ldm.w r1, {r2-r4}\n" /* the list has at least three entries */
        "    add.w r1, sp, #4*9\n"
        "    stm.w r1, {r2-r4}\n"
        "    .endif\n"
        "    .balign 4\n"
        "1:\n" /* a block */
        "    ldr.w r2, [sp, #4*5]\n"
        "    ldr.w r3, [sp, #4*3]\n"
        "    ldr.w r4, [sp, #4*2]\n"
        "    ldr.w r0, [sp, #4*1]\n"
        "    str.w r2, [sp, #4*7]\n"
        "    str.w r3, [sp, #4*13]\n"
        "    str.w r4, [sp, #4*14]\n"
        "    .balign 4\n"
        "2:\n" /* a group */
        "    .if ge_outs > 1\n"
        "    movw r12, #ge_outs\n"
        "    str.w r12, [sp, #4*8]\n"
        "    .balign 4\n"
        "    .endif\n"
        "3:\n" /* an output channel */
        "    ldr.w r2, [r0], #4\n"
        "    .if ge_loops > 1\n"
        "    movw r12, #ge_loops\n"
        "    str.w r12, [sp, #4*12]\n"
        "    .endif\n"
        "    .irp ge_y, 3, 4, 5, 6, 7, 8, 9\n"
        "    .if \\ge_y < ge_pixels+2\n"
        "    mov.w r\\ge_y, r2\n"
        "    .endif\n"
        "    .endr\n"
        "    .if ge_loops > 1\n"
        "    .balign 4\n"
        "    .endif\n"
        "4:\n" /* a channel, or four, of the input */
        "    .if %c[loop]\n"
        "    ldr.w r12, [sp, #4*0]\n"
        "    str.w r12, [sp, #4*9]\n"
        "    add.w r12, r12, #4*ge_rows\n"
        "    str.w r12, [sp, #4*10]\n"
        "    .balign 4\n"
        "5:\n" /* a row of the window */
        "    ldr.w r12, [sp, #4*9]\n"
        "    ldr.w r1, [r12], #4\n"
        "    str.w r12, [sp, #4*9]\n"
        CONV2D_BLOCK_S8_DSP_ROW
        "    ldr.w r12, [sp, #4*9]\n"
        "    ldr.w lr, [sp, #4*10]\n"
        "    cmp.w r12, lr\n"
        "    bne.w 5b\n"
        "    .else\n"
        "    .set ge_line, 0\n"
        "    .rept ge_rows\n"
        "    .if ge_rows > 3\n"
        "    ldr.w r1, [sp, #4*0]\n"
        "    ldr.w r1, [r1, #4*ge_line]\n"
        "    .elseif ge_line == 0\n"
        "    ldr.w r1, [sp, #4*9]\n"
        "    .elseif ge_line == 1\n"
        "    ldr.w r1, [sp, #4*10]\n"
        "    .else\n"
        "    ldr.w r1, [sp, #4*11]\n"
        "    .endif\n"
        CONV2D_BLOCK_S8_DSP_ROW
        "    .set ge_line, ge_line+1\n"
        "    .endr\n"
        "    .endif\n"
        "    .if ge_loops > 1\n"
        "    ldr.w r12, [sp, #4*13]\n"
        "    ldr.w lr, [sp, #4*12]\n"
        "    add.w r12, r12, #ge_unit\n"
        "    .if ge_twice\n"
        "    cmp.w lr, #ge_loops\n"
        "    it eq\n"
        "    subeq.w r12, r12, #ge_twice\n"
        "    .endif\n"
        "    str.w r12, [sp, #4*13]\n"
        "    subs.w lr, lr, #1\n"
        "    str.w lr, [sp, #4*12]\n"
        "    bne.w 4b\n"
        "    .endif\n"
        "    ldr.w r10, [r0], #4\n"
        "    ldr.w r12, [sp, #4*6]\n"
        "    ldr.w lr, [sp, #4*14]\n"
        "    .if ge_up\n"
        CONV2D_BLOCK_S8_DSP_EACH("    lsl.w r\\ge_y, r\\ge_y, #ge_up\n")
        "    .endif\n"
        CONV2D_BLOCK_S8_DSP_EACH("    smmlar r\\ge_y, r\\ge_y, r10, r12\n")
        CONV2D_BLOCK_S8_DSP_EACH("    ssat r\\ge_y, #8, r\\ge_y\n")
        CONV2D_BLOCK_S8_DSP_EACH("    strb.w r\\ge_y, [lr, #(\\ge_y-2)*ge_out]\n")
        "    add.w lr, lr, #1\n"
        "    str.w lr, [sp, #4*14]\n"
        "    .if ge_outs > 1\n"
        "    .if ge_loops > 1\n"
        "    ldr.w r12, [sp, #4*13]\n"
        "    subw r12, r12, #ge_depth\n"
        "    str.w r12, [sp, #4*13]\n"
        "    .endif\n"
        "    ldr.w r12, [sp, #4*8]\n"
        "    subs.w r12, r12, #1\n"
        "    str.w r12, [sp, #4*8]\n"
        "    bne.w 3b\n"
        "    .endif\n"
        "    ldr.w lr, [sp, #4*7]\n"
        "    .if ge_outs > 1 || ge_loops == 1\n"
        "    ldr.w r12, [sp, #4*13]\n"
        "    addw r12, r12, #ge_depth\n"
        "    str.w r12, [sp, #4*13]\n"
        "    .endif\n"
        "    subs.w lr, lr, #1\n"
        "    str.w lr, [sp, #4*7]\n"
        "    bne.w 2b\n"
        "    ldr.w r10, [sp, #4*4]\n"
        "    ldr.w r12, [sp, #4*2]\n"
        "    ldr.w lr, [sp, #4*3]\n"
        "    .if %c[down]\n"
        "    subs.w r10, r10, #1\n"
        "    beq.w 9f\n"
        "    addw r12, r12, #%c[next]\n"
        "    movw r11, #%c[step]\n"
        "    add.w lr, lr, r11\n"
        "    .else\n"
        "    subs.w r10, r10, #ge_pixels\n"
        "    beq.w 9f\n"
        "    mov.w r11, #ge_pixels\n"
        "    cmp.w r10, #ge_pixels\n" /* the last block overlaps the one before */
        "    itt lt\n"
        "    movlt.w r11, r10\n"
        "    movlt.w r10, #ge_pixels\n"
        "    movw r9, #ge_out\n"
        "    mla r12, r11, r9, r12\n"
        "    movw r9, #ge_pixel\n"
        "    mla lr, r11, r9, lr\n"
        "    .endif\n"
        "    str.w r10, [sp, #4*4]\n"
        "    str.w r12, [sp, #4*2]\n"
        "    str.w lr, [sp, #4*3]\n"
        "    b.w 1b\n"
        "9:\n"
        GE_DSP_LEAVE
        : "+r"(r0)
        : [pixels] "i"(CONV2D_BLOCK_S8_DSP_PIXELS), [rows] "i"(CONV2D_BLOCK_S8_DSP_ROWS),
          [taps] "i"(CONV2D_BLOCK_S8_DSP_TAPS), [tap] "i"(CONV2D_BLOCK_S8_DSP_TAP),
          [pixel] "i"(CONV2D_BLOCK_S8_DSP_PIXEL), [ratio] "i"(CONV2D_BLOCK_S8_DSP_RATIO), [out] "i"(CONV2D_BLOCK_S8_DSP_OUT),
          [depth] "i"(CONV2D_BLOCK_S8_DSP_DEPTH), [outs] "i"(CONV2D_BLOCK_S8_DSP_OUTS),
          [words] "i"(CONV2D_BLOCK_S8_DSP_WORDS), [deep] "i"(CONV2D_BLOCK_S8_DSP_DEEP), [loop] "i"(CONV2D_BLOCK_S8_DSP_LOOP),
          [up] "i"(CONV2D_BLOCK_S8_DSP_UP), [down] "i"(CONV2D_BLOCK_S8_DSP_DOWN),
          [step] "i"(CONV2D_BLOCK_S8_DSP_STEP), [next] "i"(CONV2D_BLOCK_S8_DSP_NEXT)
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

/* State that all output rows share. */
typedef struct {
    const int8_t **rows;
    int32_t *held;   /* number of the input row in each row of the ring; -1: none yet */
    int8_t *outside; /* a row of padding */
    int8_t *ring;    /* input row y is in copied row y % span; NULL: rows are read in place */
    int32_t row;     /* bytes of a copied row */
    int32_t span;    /* input rows that an output row reads */
} conv2d_block_s8_dsp_space;

static inline void conv2d_block_s8_dsp_open(const ge_conv2d_params *p, void *scratch, conv2d_block_s8_dsp_space *s) {
    const int32_t columns = (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
    const int32_t places = p->kernel_h < CONV2D_BLOCK_S8_DSP_PLACES ? CONV2D_BLOCK_S8_DSP_PLACES : p->kernel_h;
    s->row = (columns * p->in_c + 3) & ~3;
    s->span = (p->kernel_h - 1) * p->dilation_h + 1;
    s->rows = (const int8_t **)scratch;
    s->held = (int32_t *)(void *)(s->rows + places);
    s->outside = (int8_t *)(s->held + s->span);
    s->ring = p->pad_left == 0 && columns <= p->in_w ? NULL : s->outside + s->row;
    for (int32_t i = 0; i < s->span; i++) {
        s->held[i] = -1;
    }
    for (int32_t i = p->kernel_h; i < places; i++) {
        s->rows[i] = s->outside;
    }
    memset(s->outside, p->in_zero_point, (size_t)s->row);
}

/* Writes a few bytes of padding: memset of the small C libraries takes longer to start. */
static inline void conv2d_block_s8_dsp_pad(const ge_conv2d_params *p, int8_t *to, int32_t count) {
    for (; count >= 8; count -= 8) {
        const uint32_t word = ((uint32_t)p->in_zero_point & 0xFFu) * 0x01010101u;
        memcpy(to, &word, 4);
        memcpy(to + 4, &word, 4);
        to += 8;
    }
    for (; count > 0; count--) {
        *to++ = (int8_t)p->in_zero_point;
    }
}

/* Copies input row `from` with its padding: `row` bytes. */
static inline void conv2d_block_s8_dsp_copy(const ge_conv2d_params *p, const int8_t *from, int32_t row, int8_t *to) {
    const int32_t left = p->pad_left * p->in_c < row ? p->pad_left * p->in_c : row;
    const int32_t most = row - left;
    const int32_t inside = p->in_w * p->in_c < most ? p->in_w * p->in_c : most;
    conv2d_block_s8_dsp_pad(p, to, left);
    ge_dsp_copy(to + left, from, inside);
    conv2d_block_s8_dsp_pad(p, to + left + inside, most - inside);
}

/* Returns input row iy with its padding, in the ring. */
static inline const int8_t *conv2d_block_s8_dsp_copied(const ge_conv2d_params *p, const conv2d_block_s8_dsp_space *s,
                                                       const int8_t *from, int32_t iy) {
    const int32_t slot = iy % s->span;
    int8_t *const to = s->ring + slot * s->row;
    if (s->held[slot] != iy) {
        conv2d_block_s8_dsp_copy(p, from, s->row, to);
        s->held[slot] = iy;
    }
    return to;
}

/* Points at the rows of the window whose first row is `top`. */
static inline void conv2d_block_s8_dsp_point(const ge_conv2d_params *p, const ge_rows *x,
                                             const conv2d_block_s8_dsp_space *s, int32_t top) {
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t iy = top + ky * p->dilation_h;
        const int8_t *row = s->outside;
        if (iy >= 0 && iy < p->in_h) {
            row = (const int8_t *)ge_row(x, iy);
            row = s->ring == NULL ? row : conv2d_block_s8_dsp_copied(p, s, row, iy);
        }
        s->rows[ky] = row;
    }
}

/* Computes one output row: every `apart`-th pixel, starting from each of the first ones. */
static inline void conv2d_block_s8_dsp_row(const ge_conv2d_params *p, conv2d_block_s8_dsp_job *job, int8_t *out) {
    const int32_t apart = CONV2D_BLOCK_S8_DSP_OUT / p->out_c;
    for (int32_t first = 0; first < apart && first < p->out_w; first++) {
        job->pixels = (p->out_w - 1 - first) / apart + 1;
        job->out = out + first * p->out_c;
        job->place = first * p->stride_w * p->in_c;
        conv2d_block_s8_dsp_blocks(job);
    }
}

/* A separate function: otherwise its stack frame would exist during the calls of all other kernels. */
__attribute__((unused, noinline)) static void conv2d_block_s8_dsp_across(const ge_conv2d_params *p, const ge_rows *x,
                                                                         const uint32_t *stream, const ge_rows *out,
                                                                         int32_t first_row, int32_t last_row,
                                                                         void *scratch) {
    conv2d_block_s8_dsp_space s;
    conv2d_block_s8_dsp_open(p, scratch, &s);
    conv2d_block_s8_dsp_job job = {s.rows, stream, NULL, 0, 0, p->groups, p->out_zero_point};
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        conv2d_block_s8_dsp_point(p, x, &s, y * p->stride_h - p->pad_top);
        conv2d_block_s8_dsp_row(p, &job, o);
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(o, p->out_w * p->out_c, p->lo, p->hi);
        }
    }
}

/* Layout in scratch for blocks that extend downwards. */
typedef struct {
    const int8_t **places; /* addresses of the columns of a window */
    int8_t *copies;        /* rows of the input, `row` bytes each */
    int8_t *outputs;
    int32_t row;
    int32_t step; /* input rows from copied row to copied row; with padding at the sides, only rows that are read are
                   * copied */
    int32_t seen; /* copied rows for a block */
} conv2d_block_s8_dsp_columns;

/* Copies the rows from iy on that a block reads, with their padding. */
static inline void conv2d_block_s8_dsp_take(const ge_conv2d_params *p, const ge_rows *x, int32_t iy,
                                            const conv2d_block_s8_dsp_columns *s) {
    int8_t *to = s->copies;
    int32_t i = 0;
    for (; i < s->seen && iy < 0; i++) {
        conv2d_block_s8_dsp_pad(p, to, s->row);
        iy += s->step;
        to += s->row;
    }
    if (s->step == 1 && x->slots == NULL && x->stride == s->row && p->pad_left == 0 && iy < p->in_h) {
        const int32_t rows = s->seen - i < p->in_h - iy ? s->seen - i : p->in_h - iy;
        ge_dsp_copy(to, (const int8_t *)ge_row(x, iy), rows * s->row);
        i += rows;
        iy += rows;
        to += rows * s->row;
    }
    for (; i < s->seen; i++) {
        if (iy < p->in_h) {
            conv2d_block_s8_dsp_copy(p, (const int8_t *)ge_row(x, iy), s->row, to);
        } else {
            conv2d_block_s8_dsp_pad(p, to, s->row);
        }
        iy += s->step;
        to += s->row;
    }
}

/* Returns whether the rows that a block reads can be read in place: no padding, consecutive, none overwritten
 * meanwhile. */
static inline int conv2d_block_s8_dsp_lies(const ge_conv2d_params *p, const ge_rows *x,
                                           const conv2d_block_s8_dsp_columns *s, int32_t iy, const int8_t *o) {
    if (s->step != 1 || x->slots != NULL || x->stride != s->row || p->pad_left > 0 || iy < 0 ||
        iy + s->seen > p->in_h) {
        return 0;
    }
    const uintptr_t begin = (uintptr_t)ge_row(x, iy);
    const uintptr_t written = (uintptr_t)o;
    return written >= begin + (uintptr_t)(s->seen * s->row) ||
           written + CONV2D_BLOCK_S8_DSP_PIXELS * CONV2D_BLOCK_S8_DSP_OUT <= begin;
}

/* Computes all columns of a block of output rows: row y and every `apart`-th row after it, below `last`. Rows that were
 * not requested and rows in slots are computed next to the others, and copied. */
static inline void conv2d_block_s8_dsp_rows(const ge_conv2d_params *p, const ge_rows *x, const ge_rows *out, int32_t y,
                                            int32_t last, int32_t apart, const conv2d_block_s8_dsp_columns *s,
                                            conv2d_block_s8_dsp_job *job) {
    const int32_t out_row = p->out_w * p->out_c;
    const int32_t iy = y * p->stride_h - p->pad_top;
    const int32_t whole =
        out->slots == NULL && out->stride == out_row && y + (CONV2D_BLOCK_S8_DSP_PIXELS - 1) * apart < last;
    job->out = whole ? (int8_t *)ge_row(out, y) : s->outputs;
    const int8_t *from = s->copies;
    if (conv2d_block_s8_dsp_lies(p, x, s, iy, job->out)) {
        from = (const int8_t *)ge_row(x, iy);
    } else {
        conv2d_block_s8_dsp_take(p, x, iy, s);
    }
    for (int32_t kx = 0; kx < p->kernel_w; kx++) {
        s->places[kx] = from + kx * p->dilation_w * p->in_c;
    }
    job->place = 0;
    job->pixels = p->out_w;
    conv2d_block_s8_dsp_blocks(job);
    for (int32_t i = 0; i < CONV2D_BLOCK_S8_DSP_PIXELS && y + i * apart < last; i++) {
        int8_t *const o = (int8_t *)ge_row(out, y + i * apart);
        if (!whole) {
            ge_dsp_copy(o, s->outputs + i * CONV2D_BLOCK_S8_DSP_OUT, out_row);
        }
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            ge_dsp_clamp(o, out_row, p->lo, p->hi);
        }
    }
}

__attribute__((unused, noinline)) static void conv2d_block_s8_dsp_down(const ge_conv2d_params *p, const ge_rows *x,
                                                                       const uint32_t *stream, const ge_rows *out,
                                                                       int32_t first_row, int32_t last_row,
                                                                       void *scratch) {
    const int32_t apart = CONV2D_BLOCK_S8_DSP_OUT / (p->out_w * p->out_c);
    conv2d_block_s8_dsp_columns s;
    s.places = (const int8_t **)scratch;
    s.copies =
        (int8_t *)(s.places + (p->kernel_w < CONV2D_BLOCK_S8_DSP_PLACES ? CONV2D_BLOCK_S8_DSP_PLACES : p->kernel_w));
    s.row = ((p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1) * p->in_c;
    const int32_t pixel = CONV2D_BLOCK_S8_DSP_PIXEL / s.row;
    s.step = apart * p->stride_h / pixel;
    s.seen = (CONV2D_BLOCK_S8_DSP_PIXELS - 1) * pixel + (p->kernel_h - 1) * p->dilation_h / s.step + 1;
    s.outputs = s.copies + s.seen * s.row;
    conv2d_block_s8_dsp_job job = {s.places, stream, NULL, 0, 0, p->groups, p->out_zero_point};
    for (int32_t first = first_row; first < first_row + apart && first < last_row; first++) {
        for (int32_t y = first; y < last_row; y += CONV2D_BLOCK_S8_DSP_PIXELS * apart) {
            conv2d_block_s8_dsp_rows(p, x, out, y, last_row, apart, &s, &job);
        }
    }
}

static void ge_conv2d_block_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                   const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    if (CONV2D_BLOCK_S8_DSP_DOWN) {
        conv2d_block_s8_dsp_down(p, x, stream, out, first_row, last_row, scratch);
    } else {
        conv2d_block_s8_dsp_across(p, x, stream, out, first_row, last_row, scratch);
    }
}
