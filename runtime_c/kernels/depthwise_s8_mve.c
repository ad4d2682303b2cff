/* Depthwise convolution of int8 [H, W, C] with as many channels out, any kernel, requantization by 2^-32: Helium.
 *
 * Lanes are channels: 16 at a time. Two taps make one sum of int16 (2 * 127 * 128 fits), the bottom and the top bytes apart
 * (VMULLB, VMULLT), which is then added to four vectors of int32: 20 vector instructions for 32 MACs. The narrowing moves
 * put the channels into their order again. Where C is no multiple of 16, the last block begins 16 channels before the end;
 * below 16 channels, taps are copied into vectors first.
 *
 * Measured, instructions under QEMU: 3x3 25x5x64 81,110 (10.1 per output).
 *
 *   q4 q5 q6 q7  sums of channels 0 4 8 12 | 2 6 10 14 | 1 5 9 13 | 3 7 11 15
 *   q0 q1 q3     pixels, weights and products of odd channels; q2 products of even channels
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_mve.h"
#include "ge_mve_taps.h"
#include "ge_params.h"

typedef struct {
    int8_t lo[16];      /* 0 */
    int8_t hi[16];      /* 16 */
    int32_t zero_point; /* 32 */
    int32_t odd;        /* 36: 1 where a tap is left after the pairs */
    int32_t pairs;      /* of taps */
} depthwise_s8_mve_law;

#define DEPTHWISE_S8_MVE_ADD(sum, how, from) "vmovl" how ".s16 q1, " from "\nvadd.i32 " sum ", " sum ", q1\n"
#define DEPTHWISE_S8_MVE_SCALE(sum) "vldrw.u32 q0, [%[stream]], #16\nvrmulh.s32 " sum ", " sum ", q0\n"

/* 16 channels at a time from `offset` bytes behind the taps on; returns the rest of the stream. */
static const int8_t *depthwise_s8_mve_blocks(const int8_t *const *taps, int32_t offset, const int8_t *stream,
                                             const depthwise_s8_mve_law *law, int8_t *out, int32_t blocks) {
    const int8_t *const *tap;
    /* clang-format off */
    __asm__ volatile(
        "1:\n"
        "mov %[tap], %[taps]\n"
        "vldrw.u32 q4, [%[stream]], #16\n"
        "vldrw.u32 q5, [%[stream]], #16\n"
        "vldrw.u32 q6, [%[stream]], #16\n"
        "vldrw.u32 q7, [%[stream]], #16\n"
        "wls lr, %[pairs], 3f\n"
        "2:\n"
        "ldrd r1, r3, [%[tap]], #8\n"
        "add r1, r1, %[offset]\n"
        "add r3, r3, %[offset]\n"
        "vldrb.8 q0, [r1]\n"
        "vldrb.8 q1, [%[stream]], #16\n"
        "vmullb.s8 q2, q0, q1\n"
        "vmullt.s8 q0, q0, q1\n"
        "vldrb.8 q1, [r3]\n"
        "vldrb.8 q3, [%[stream]]\n"
        "vmullt.s8 q3, q1, q3\n"
        "vadd.i16 q0, q0, q3\n"
        "vldrb.8 q3, [%[stream]], #16\n" /* once more: there is no eighth vector to keep it in */
        "vmullb.s8 q1, q1, q3\n"
        "vadd.i16 q2, q2, q1\n"
        DEPTHWISE_S8_MVE_ADD("q4", "b", "q2")
        DEPTHWISE_S8_MVE_ADD("q5", "t", "q2")
        DEPTHWISE_S8_MVE_ADD("q6", "b", "q0")
        DEPTHWISE_S8_MVE_ADD("q7", "t", "q0")
        "le lr, 2b\n"
        "3:\n"
        "ldrd r1, r3, [%[law], #32]\n"
        "cbz r3, 4f\n"
        "ldr r3, [%[tap]]\n"
        "add r3, r3, %[offset]\n"
        "vldrb.8 q0, [r3]\n"
        "vldrb.8 q1, [%[stream]], #16\n"
        "vmullb.s8 q2, q0, q1\n"
        "vmullt.s8 q0, q0, q1\n"
        DEPTHWISE_S8_MVE_ADD("q4", "b", "q2")
        DEPTHWISE_S8_MVE_ADD("q5", "t", "q2")
        DEPTHWISE_S8_MVE_ADD("q6", "b", "q0")
        DEPTHWISE_S8_MVE_ADD("q7", "t", "q0")
        "4:\n"
        DEPTHWISE_S8_MVE_SCALE("q4")
        DEPTHWISE_S8_MVE_SCALE("q5")
        DEPTHWISE_S8_MVE_SCALE("q6")
        DEPTHWISE_S8_MVE_SCALE("q7")
        "vqmovnb.s32 q0, q4\n"
        "vqmovnt.s32 q0, q5\n"
        "vqmovnb.s32 q1, q6\n"
        "vqmovnt.s32 q1, q7\n"
        "vqadd.s16 q0, q0, r1\n"
        "vqadd.s16 q1, q1, r1\n"
        "vqmovnb.s16 q2, q0\n"
        "vqmovnt.s16 q2, q1\n"
        "vldrb.8 q0, [%[law]]\n"
        "vldrb.8 q1, [%[law], #16]\n"
        "vmax.s8 q2, q2, q0\n"
        "vmin.s8 q2, q2, q1\n"
        "vstrb.8 q2, [%[out]], #16\n"
        "add %[offset], %[offset], #16\n"
        "subs %[blocks], %[blocks], #1\n"
        "bne 1b\n"
        : [tap] "=&r"(tap), [offset] "+r"(offset), [stream] "+r"(stream), [out] "+r"(out), [blocks] "+r"(blocks)
        : [taps] "r"(taps), [law] "r"(law), [pairs] "r"(law->pairs)
        : "r1", "r3", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
    /* clang-format on */
    return stream;
}

/* A pixel with fewer than 16 channels, by way of copies of its taps and of a buffer. */
static void depthwise_s8_mve_few(const ge_mve_taps *s, int32_t channels, int32_t offset, const int8_t *stream,
                                 const depthwise_s8_mve_law *law, int8_t *out, int8_t *space) {
    int8_t sixteen[16];
    const int8_t **copies = (const int8_t **)(void *)(space + 16 * s->count);
    for (int32_t i = 0; i < s->count; i++) {
        ge_mve_copy(space + 16 * i, s->taps[i] + offset, channels);
        copies[i] = space + 16 * i;
    }
    (void)depthwise_s8_mve_blocks(copies, 0, stream, law, sixteen, 1);
    ge_mve_copy(out, sixteen, channels);
}

/* One pixel. */
static void depthwise_s8_mve_pixel(const ge_mve_taps *s, int32_t channels, int32_t offset, const int8_t *stream,
                                   const depthwise_s8_mve_law *law, int8_t *out, int8_t *space) {
    if (channels < 16) {
        depthwise_s8_mve_few(s, channels, offset, stream, law, out, space);
        return;
    }
    stream = depthwise_s8_mve_blocks(s->taps, offset, stream, law, out, channels / 16);
    if (channels % 16 != 0) {
        (void)depthwise_s8_mve_blocks(s->taps, offset + channels - 16, stream, law, out + channels - 16, 1);
    }
}

static void ge_depthwise_s8_mve(const ge_conv2d_params *p, const ge_rows *x, const int8_t *stream, const ge_rows *out,
                                int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t count = p->kernel_h * p->kernel_w;
    int8_t *const space = (int8_t *)scratch;
    depthwise_s8_mve_law law;
    memset(law.lo, p->lo, sizeof law.lo);
    memset(law.hi, p->hi, sizeof law.hi);
    law.zero_point = p->out_zero_point;
    law.odd = count % 2;
    law.pairs = count / 2;
    ge_mve_taps taps = ge_mve_open(p, p->kernel_w, space + (p->in_c < 16 ? 20 * count : 0));
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        int32_t offset = 0;
        ge_mve_point(p, x, &taps, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            depthwise_s8_mve_pixel(&taps, p->in_c, offset, stream, &law, o, space);
            offset += p->stride_w * p->in_c;
            o += p->in_c;
        }
    }
}
