/* Convolution of int8 [H, W, C] with touching taps and one group for Cortex-M4, M7 and M33.
 *
 * A strip holds the rows under one row of windows as int16, strip[x][ky][C]: the window of a pixel is one run of it, and
 * the next pixel's begins PIXEL bytes later. For the next row of windows the strip begins a row's channels later: what was
 * row ky + 1 of a column is now row ky, and only new rows are written. Nothing is copied or expanded twice.
 * For 1x1 the strip is a list of pixels, across row ends. Products: 4 channels x 2 pixels, as in ge_isa_dsp.h.
 *
 * r0 weights, r1 x, r2 r3 S01 of the pixels, r4 r5 B01, r6 r7 S23, r8 r9 B23, r10 r11 weights, r12 lr x.
 * 15 cycles for 16 products, about 60 for each 8 outputs besides; 2 for each input.
 *
 * scratch: [out pointers][strip]. Needs shift 25..32 and |sum| < 2^23. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

#define CONV2D_STRIP_S8_DSP_CHANNELS 64 /* of the strip; more than the input has where that makes PIXEL whole words */
#define CONV2D_STRIP_S8_DSP_UNROLL 8    /* steps in the loop */
#define CONV2D_STRIP_S8_DSP_PIXEL 128   /* bytes from pixel to pixel in the strip */
#define CONV2D_STRIP_S8_DSP_STEPS 32    /* words of a window: pairs of k */
#define CONV2D_STRIP_S8_DSP_DOWN 8      /* 8 - (32 - shift) */
#define CONV2D_STRIP_S8_DSP_TILE 16     /* pixels of a list, even */
#define CONV2D_STRIP_S8_DSP_ROWS 8 /* (the same for all) rows of windows before the strip begins again at its start */

/* In the order of registers s0-s6. */
typedef struct {
    const uint32_t *x;
    int8_t *const *out; /* where each pixel's channels begin; an even number */
    int32_t pairs;      /* of pixels */
    int32_t groups;     /* of four channels */
    const uint32_t *w;  /* for each group: S01, B01, S23, B23, two words for each pair of k, 4 multipliers */
    int32_t zero_point;
    int32_t channel; /* the first, as offset from `out` */
} conv2d_strip_s8_dsp_job;

#define CONV2D_STRIP_S8_DSP_TEXT(x) #x
#define CONV2D_STRIP_S8_DSP_NUMBER(x) CONV2D_STRIP_S8_DSP_TEXT(x)

__attribute__((noinline)) static void conv2d_strip_s8_dsp_gemm(const conv2d_strip_s8_dsp_job *job) {
    register const conv2d_strip_s8_dsp_job *r0 __asm__("r0") = job;
    __asm__ volatile("    .set ge_pixel, " CONV2D_STRIP_S8_DSP_NUMBER(CONV2D_STRIP_S8_DSP_PIXEL) "\n"
                                                                                                 "    .set "
                                                                                                 "ge_steps,"
                                                                                                 " " CONV2D_STRIP_S8_DSP_NUMBER(CONV2D_STRIP_S8_DSP_STEPS) "\n"
                                                                                                                                                           "    .set ge_next, 2*ge_pixel-4*ge_steps\n"
                                                                                                                                                           "    .set ge_down, " CONV2D_STRIP_S8_DSP_NUMBER(
                                                                                                                                                               CONV2D_STRIP_S8_DSP_DOWN) "\n"
                                                                                                                                                                                         "    .set ge_unroll, " CONV2D_STRIP_S8_DSP_NUMBER(
                                                                                                                                                                                             CONV2D_STRIP_S8_DSP_UNROLL) "\n"
                                                                                                                                                                                                                         "    vldmia r0, {s0-s6}\n"
                                                                                                                                                                                                                         "    vmov s15, r7\n"
                                                                                                                                                                                                                         "1:\n" /* four channels */
                                                                                                                                                                                                                         "    vmov r0, s4\n"
                                                                                                                                                                                                                         "    movw r1, #8*ge_steps+16\n"
                                                                                                                                                                                                                         "    add r1, r1, r0\n"
                                                                                                                                                                                                                         "    vmov s10, r1\n" /* end of the weights */
                                                                                                                                                                                                                         "    vmov.f32 s11, s0\n"
                                                                                                                                                                                                                         "    vmov.f32 s12, s1\n"
                                                                                                                                                                                                                         "    vmov.f32 s13, s2\n"
                                                                                                                                                                                                                         "    .balign 4\n"
                                                                                                                                                                                                                         "2:\n" /* two pixels */
                                                                                                                                                                                                                         "    vmov r0, s4\n"
                                                                                                                                                                                                                         "    vmov r1, s11\n"
                                                                                                                                                                                                                         "    ldr r2, [r0], #4\n"
                                                                                                                                                                                                                         "    ldr r4, [r0], #4\n"
                                                                                                                                                                                                                         "    ldr r6, [r0], #4\n"
                                                                                                                                                                                                                         "    ldr r8, [r0], #4\n"
                                                                                                                                                                                                                         "    mov r3, r2\n"
                                                                                                                                                                                                                         "    mov r5, r4\n"
                                                                                                                                                                                                                         "    mov r7, r6\n"
                                                                                                                                                                                                                         "    mov r9, r8\n"
                                                                                                                                                                                                                         "    .if ge_steps %% ge_unroll\n"
                                                                                                                                                                                                                         "    b.w 3f + (ge_unroll - ge_steps %% ge_unroll) * 56\n"
                                                                                                                                                                                                                         "    .endif\n"
                                                                                                                                                                                                                         "    .balign 4\n"
                                                                                                                                                                                                                         "3:\n"
                                                                                                                                                                                                                         "    .rept ge_unroll\n"
                                                                                                                                                                                                                         "    ldr.w r10, [r0], #4\n"
                                                                                                                                                                                                                         "    ldr.w r11, [r0], #4\n"
                                                                                                                                                                                                                         "    ldr.w lr, [r1, #ge_pixel]\n"
                                                                                                                                                                                                                         "    ldr.w r12, [r1], #4\n"
                                                                                                                                                                                                                         "    smlad r2, r10, r12, r2\n"
                                                                                                                                                                                                                         "    smlad r3, r10, lr, r3\n"
                                                                                                                                                                                                                         "    smlad r6, r11, r12, r6\n"
                                                                                                                                                                                                                         "    smlad r7, r11, lr, r7\n"
                                                                                                                                                                                                                         "    sxtb16 r10, r10\n"
                                                                                                                                                                                                                         "    sxtb16 r11, r11\n"
                                                                                                                                                                                                                         "    smlad r4, r10, r12, r4\n"
                                                                                                                                                                                                                         "    smlad r5, r10, lr, r5\n"
                                                                                                                                                                                                                         "    smlad r8, r11, r12, r8\n"
                                                                                                                                                                                                                         "    smlad r9, r11, lr, r9\n"
                                                                                                                                                                                                                         "    .endr\n"
                                                                                                                                                                                                                         "    .if ge_steps > ge_unroll\n"
                                                                                                                                                                                                                         "    vmov r12, s10\n"
                                                                                                                                                                                                                         "    cmp r0, r12\n"
                                                                                                                                                                                                                         "    bne.w 3b\n"
                                                                                                                                                                                                                         "    .endif\n"

                                                                                                                                                                                                                         "    .if ge_next < 0\n" /* r1 is behind the first pixel's window */
                                                                                                                                                                                                                         "    subw r1, r1, #-ge_next\n"
                                                                                                                                                                                                                         "    .else\n"
                                                                                                                                                                                                                         "    addw r1, r1, #ge_next\n"
                                                                                                                                                                                                                         "    .endif\n"
                                                                                                                                                                                                                         "    vmov s11, r1\n"
                                                                                                                                                                                                                         "    sub r2, r2, r4\n"
                                                                                                                                                                                                                         "    sub r3, r3, r5\n"
                                                                                                                                                                                                                         "    sub r6, r6, r8\n"
                                                                                                                                                                                                                         "    sub r7, r7, r9\n"
                                                                                                                                                                                                                         "    asr r2, r2, #ge_down\n"
                                                                                                                                                                                                                         "    asr r3, r3, #ge_down\n"
                                                                                                                                                                                                                         "    asr r6, r6, #ge_down\n"
                                                                                                                                                                                                                         "    asr r7, r7, #ge_down\n"
                                                                                                                                                                                                                         "    .if ge_down < 8\n"
                                                                                                                                                                                                                         "    lsl r4, r4, #8-ge_down\n"
                                                                                                                                                                                                                         "    lsl r5, r5, #8-ge_down\n"
                                                                                                                                                                                                                         "    lsl r8, r8, #8-ge_down\n"
                                                                                                                                                                                                                         "    lsl r9, r9, #8-ge_down\n"
                                                                                                                                                                                                                         "    .endif\n"
                                                                                                                                                                                                                         "    ldr r10, [r0], #4\n"
                                                                                                                                                                                                                         "    ldr r11, [r0], #4\n"
                                                                                                                                                                                                                         "    ldr r12, [r0], #4\n"
                                                                                                                                                                                                                         "    ldr lr, [r0], #4\n"
                                                                                                                                                                                                                         "    vmov r1, s5\n"
                                                                                                                                                                                                                         "    smmlar r2, r2, r10, r1\n"
                                                                                                                                                                                                                         "    smmlar r3, r3, r10, r1\n"
                                                                                                                                                                                                                         "    smmlar r4, r4, r11, r1\n"
                                                                                                                                                                                                                         "    smmlar r5, r5, r11, r1\n"
                                                                                                                                                                                                                         "    smmlar r6, r6, r12, r1\n"
                                                                                                                                                                                                                         "    smmlar r7, r7, r12, r1\n"
                                                                                                                                                                                                                         "    smmlar r8, r8, lr, r1\n"
                                                                                                                                                                                                                         "    smmlar r9, r9, lr, r1\n"
                                                                                                                                                                                                                         "    vmov r10, s12\n"
                                                                                                                                                                                                                         "    ldr r11, [r10], #4\n"
                                                                                                                                                                                                                         "    ldr r12, [r10], #4\n"
                                                                                                                                                                                                                         "    vmov lr, s6\n"
                                                                                                                                                                                                                         "    vmov s12, r10\n"
                                                                                                                                                                                                                         "    vmov r10, s13\n"
                                                                                                                                                                                                                         "    add r11, r11, lr\n"
                                                                                                                                                                                                                         "    add r12, r12, lr\n"
                                                                                                                                                                                                                         "    ssat r2, #8, r2\n"
                                                                                                                                                                                                                         "    ssat r3, #8, r3\n"
                                                                                                                                                                                                                         "    ssat r4, #8, r4\n"
                                                                                                                                                                                                                         "    ssat r5, #8, r5\n"
                                                                                                                                                                                                                         "    ssat r6, #8, r6\n"
                                                                                                                                                                                                                         "    ssat r7, #8, r7\n"
                                                                                                                                                                                                                         "    ssat r8, #8, r8\n"
                                                                                                                                                                                                                         "    ssat r9, #8, r9\n"
                                                                                                                                                                                                                         "    subs r10, r10, #1\n"
                                                                                                                                                                                                                         "    strb r3, [r12]\n"
                                                                                                                                                                                                                         "    strb r5, [r12, #1]\n"
                                                                                                                                                                                                                         "    strb r7, [r12, #2]\n"
                                                                                                                                                                                                                         "    strb r9, [r12, #3]\n"
                                                                                                                                                                                                                         "    strb r2, [r11]\n"
                                                                                                                                                                                                                         "    strb r4, [r11, #1]\n"
                                                                                                                                                                                                                         "    strb r6, [r11, #2]\n"
                                                                                                                                                                                                                         "    strb r8, [r11, #3]\n"
                                                                                                                                                                                                                         "    vmov s13, r10\n"
                                                                                                                                                                                                                         "    bne.w 2b\n"

                                                                                                                                                                                                                         "    vmov s4, r0\n" /* the next group begins where this one ends */
                                                                                                                                                                                                                         "    vmov r1, s6\n"
                                                                                                                                                                                                                         "    add r1, r1, #4\n"
                                                                                                                                                                                                                         "    vmov s6, r1\n"
                                                                                                                                                                                                                         "    vmov r1, s3\n"
                                                                                                                                                                                                                         "    subs r1, r1, #1\n"
                                                                                                                                                                                                                         "    vmov s3, r1\n"
                                                                                                                                                                                                                         "    bne.w 1b\n"
                                                                                                                                                                                                                         "    vmov r7, s15\n"
                     : "+r"(r0)
                     :
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory", "s0",
                       "s1", "s2", "s3", "s4", "s5", "s6", "s10", "s11", "s12", "s13", "s15");
}

/* All channels of `count` pixels; `pixels` has room for one more. */
static void conv2d_strip_s8_dsp_multiply(const ge_conv2d_params *p, const uint32_t *w, int8_t **pixels, int32_t count,
                                         const uint32_t *strip) {
    const int32_t rest = p->out_c & 3;
    conv2d_strip_s8_dsp_job job = {strip, pixels, (count + 1) / 2, p->out_c / 4, w, p->out_zero_point, 0};
    if ((count & 1) != 0) {
        pixels[count] = pixels[count - 1];
    }
    if (rest != 0) {
        job.groups = 1;
        conv2d_strip_s8_dsp_gemm(&job);
        job.w += CONV2D_STRIP_S8_DSP_STEPS * 2 + 8;
        job.groups = p->out_c / 4;
        job.channel = rest;
    }
    conv2d_strip_s8_dsp_gemm(&job);
    if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
        for (int32_t i = 0; i < count; i++) {
            ge_dsp_clamp(pixels[i], p->out_c, p->lo, p->hi);
        }
    }
}

/* `count` columns of padding in one row of the strip. */
static void conv2d_strip_s8_dsp_fill(const ge_conv2d_params *p, int32_t count, int16_t *to) {
    for (int32_t i = 0; i < count; i++) {
        for (int32_t c = 0; c < CONV2D_STRIP_S8_DSP_CHANNELS; c++) {
            to[c] = (int16_t)p->in_zero_point;
        }
        to += p->kernel_h * CONV2D_STRIP_S8_DSP_CHANNELS;
    }
}

/* `count` pixels as columns of one row of the strip. */
static void conv2d_strip_s8_dsp_pixels(const ge_conv2d_params *p, const int8_t *from, int32_t count, int16_t *to) {
    for (int32_t i = 0; i < count; i++) {
        if (CONV2D_STRIP_S8_DSP_CHANNELS % 4 == 0 && CONV2D_STRIP_S8_DSP_CHANNELS == p->in_c) {
            ge_dsp_expand_dense(from, p->in_c, (uint32_t *)(void *)to);
        } else {
            for (int32_t c = 0; c < p->in_c; c++) {
                to[c] = from[c];
            }
        }
        from += p->in_c;
        to += p->kernel_h * CONV2D_STRIP_S8_DSP_CHANNELS;
    }
}

/* Input row iy, or padding, as one row of the strip; `columns` of it. */
static void conv2d_strip_s8_dsp_row(const ge_conv2d_params *p, const ge_rows *x, int32_t iy, int32_t columns,
                                    int16_t *to) {
    const int32_t pitch = p->kernel_h * CONV2D_STRIP_S8_DSP_CHANNELS;
    if (iy < 0 || iy >= p->in_h) {
        conv2d_strip_s8_dsp_fill(p, columns, to);
        return;
    }
    const int32_t left = p->pad_left < columns ? p->pad_left : columns;
    const int32_t inside = columns - left < p->in_w ? columns - left : p->in_w;
    conv2d_strip_s8_dsp_fill(p, left, to);
    conv2d_strip_s8_dsp_pixels(p, (const int8_t *)ge_row(x, iy), inside, to + left * pitch);
    conv2d_strip_s8_dsp_fill(p, columns - left - inside, to + (left + inside) * pitch);
}

/* Windows of more than one tap: row by row. */
static void conv2d_strip_s8_dsp_windows(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                        const ge_rows *out, int32_t first, int32_t last, int8_t **pixels,
                                        int16_t *start) {
    const int32_t columns = (p->out_w - 1) * p->stride_w + p->kernel_w;
    int16_t *strip = start;
    for (int32_t y = first; y < last; y++) {
        const int32_t again = (y - first) % CONV2D_STRIP_S8_DSP_ROWS == 0 || p->stride_h >= p->kernel_h;
        const int32_t kept = again ? 0 : p->kernel_h - p->stride_h;
        int8_t *o = (int8_t *)ge_row(out, y);
        strip = again ? start : strip + p->stride_h * CONV2D_STRIP_S8_DSP_CHANNELS;
        for (int32_t ky = kept; ky < p->kernel_h; ky++) {
            conv2d_strip_s8_dsp_row(p, x, y * p->stride_h - p->pad_top + ky, columns,
                                    strip + ky * CONV2D_STRIP_S8_DSP_CHANNELS);
        }
        for (int32_t i = 0; i < p->out_w; i++) {
            pixels[i] = o;
            o += p->out_c;
        }
        conv2d_strip_s8_dsp_multiply(p, stream, pixels, p->out_w, (const uint32_t *)(const void *)strip);
    }
}

/* 1x1 without padding: a list of pixels at a time. */
static void conv2d_strip_s8_dsp_points(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                       const ge_rows *out, int32_t first, int32_t last, int8_t **pixels,
                                       uint32_t *strip) {
    int32_t count = 0;
    uint32_t *to = strip;
    for (int32_t y = first; y < last; y++) {
        const int8_t *from = (const int8_t *)ge_row(x, y * p->stride_h);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t i = 0; i < p->out_w; i++) {
            conv2d_strip_s8_dsp_pixels(p, from, 1, (int16_t *)(void *)to);
            to += CONV2D_STRIP_S8_DSP_PIXEL / 4;
            pixels[count] = o;
            count++;
            from += p->stride_w * p->in_c;
            o += p->out_c;
            if (count == CONV2D_STRIP_S8_DSP_TILE || (y + 1 == last && i + 1 == p->out_w)) {
                conv2d_strip_s8_dsp_multiply(p, stream, pixels, count, strip);
                count = 0;
                to = strip;
            }
        }
    }
}

static void ge_conv2d_strip_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                   const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    int8_t **const pixels = (int8_t **)scratch;
    if (p->kernel_h * p->kernel_w == 1) {
        uint32_t *const strip = (uint32_t *)(void *)(pixels + CONV2D_STRIP_S8_DSP_TILE);
        conv2d_strip_s8_dsp_points(p, x, stream, out, first_row, last_row, pixels, strip);
    } else {
        int16_t *const strip = (int16_t *)(void *)(pixels + ((p->out_w + 1) & ~1));
        conv2d_strip_s8_dsp_windows(p, x, stream, out, first_row, last_row, pixels, strip);
    }
}
