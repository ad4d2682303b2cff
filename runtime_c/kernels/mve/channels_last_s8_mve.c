/* Rearranges planes [C, H, W] to pixels [H, W, C]: Helium. Needs at most 9362 channels.
 *
 * Tiles of 16 planes and 16 pixels go through a buffer: VST4 interleaves four planes to a word for each pixel, and a
 * gather of four words is 16 planes of a pixel. That takes 0.4 instructions an element. For other planes, and where
 * there are few pixels, eight elements at a time are widened and scattered, in 4 instructions; where there are many more
 * channels than columns, they are gathered and scattered along the channels, in 5. Rows of the image that follow each
 * other without gaps are one. */
#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

/* Writes `count` elements to every `step`-th byte. */
static inline void channels_last_s8_mve_run(const int8_t *from, int8_t *to, int32_t count, int32_t step) {
    __asm__ volatile("mov r4, #0\n"
                     "vidup.u16 q0, r4, #1\n"
                     "vmul.i16 q1, q0, %[step]\n"
                     "lsl r4, %[step], #3\n"
                     "wlstp.16 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.u16 q0, [%[from]], #8\n"
                     "vstrb.16 q0, [%[to], q1]\n"
                     "add %[to], %[to], r4\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [from] "+&l"(from), [to] "+&r"(to)
                     : [step] "r"(step), [count] "r"(count)
                     : "r4", "lr", "q0", "q1", "memory");
}

#define CHANNELS_LAST_S8_MVE_TILE 16
#define CHANNELS_LAST_S8_MVE_FEWEST 12 /* pixels, for which tiles are faster */

/* Writes 16 planes of at most 16 pixels. */
static void channels_last_s8_mve_tile(const int8_t *x, int32_t plane, int32_t pixels, int8_t *to, int32_t step) {
    uint32_t words[CHANNELS_LAST_S8_MVE_TILE * CHANNELS_LAST_S8_MVE_TILE / 4];
    __asm__ volatile("add r1, %[x], %[plane]\n"
                     "add r2, %[x], %[plane], lsl #1\n"
                     "add r3, r1, %[plane], lsl #1\n"
                     "mov r4, %[words]\n"
                     "vctp.8 %[pixels]\n"
                     ".rept 4\n"
                     "vpstttt\n"
                     "vldrbt.u8 q0, [%[x]]\n"
                     "vldrbt.u8 q1, [r1]\n"
                     "vldrbt.u8 q2, [r2]\n"
                     "vldrbt.u8 q3, [r3]\n"
                     "add %[x], %[x], %[plane], lsl #2\n"
                     "add r1, r1, %[plane], lsl #2\n"
                     "add r2, r2, %[plane], lsl #2\n"
                     "add r3, r3, %[plane], lsl #2\n"
                     "vst40.8 {q0, q1, q2, q3}, [r4]\n"
                     "vst41.8 {q0, q1, q2, q3}, [r4]\n"
                     "vst42.8 {q0, q1, q2, q3}, [r4]\n"
                     "vst43.8 {q0, q1, q2, q3}, [r4]!\n"
                     ".endr\n"
                     "movs r4, #0\n"
                     "vidup.u32 q1, r4, #1\n"
                     "vshl.i32 q1, q1, #6\n"
                     "sub r4, %[words], #4\n"
                     "vadd.i32 q1, q1, r4\n"
                     "dls lr, %[pixels]\n"
                     "1:\n"
                     "vldrw.u32 q0, [q1, #4]!\n"
                     "vstrb.8 q0, [%[to]]\n"
                     "add %[to], %[to], %[step]\n"
                     "le lr, 1b\n"
                     : [x] "+&r"(x), [to] "+&r"(to)
                     : [plane] "r"(plane), [pixels] "r"(pixels), [step] "r"(step), [words] "r"(words)
                     : "r1", "r2", "r3", "r4", "lr", "q0", "q1", "q2", "q3", "cc", "memory");
}

/* Turns the matrix [channels, pixels], whose rows are `plane` bytes apart, where there are enough pixels; returns the
 * number of channels that are done. */
static int32_t channels_last_s8_mve_tiles(const int8_t *x, int32_t plane, int32_t channels, int32_t pixels,
                                          int8_t *to) {
    const int32_t whole = pixels < CHANNELS_LAST_S8_MVE_FEWEST ? 0 : channels & ~(CHANNELS_LAST_S8_MVE_TILE - 1);
    for (int32_t c = 0; c < whole; c += CHANNELS_LAST_S8_MVE_TILE) {
        for (int32_t i = 0; i < pixels; i += CHANNELS_LAST_S8_MVE_TILE) {
            const int32_t rest = pixels - i;
            channels_last_s8_mve_tile(x + c * plane + i, plane,
                                      rest < CHANNELS_LAST_S8_MVE_TILE ? rest : CHANNELS_LAST_S8_MVE_TILE,
                                      to + i * channels + c, channels);
        }
    }
    return whole;
}

static void ge_channels_last_s8_mve(const ge_channels_last_params *p, const ge_rows *x, const ge_rows *out,
                                    int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t plane = p->rows * x->stride, line = p->columns * p->channels;
    const int32_t dense = x->slots == NULL && out->slots == NULL && x->stride == p->columns && out->stride == line;
    const int32_t together = dense != 0 ? last_row - first_row : 1, pixels = together * p->columns;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y += together) {
        int8_t *const to = (int8_t *)ge_row(out, y);
        const int8_t *const from = (const int8_t *)ge_row(x, y);
        int32_t c = 0;
        if (x->slots == NULL) {
            c = channels_last_s8_mve_tiles(from, plane, p->channels, pixels, to);
        }
        const int32_t along_channels = x->slots == NULL && p->channels - c > 4 * pixels && plane <= GE_MVE_MOVE_STEP;
        for (; along_channels == 0 && c < p->channels; c++) {
            channels_last_s8_mve_run((const int8_t *)ge_row(x, c * p->rows + y), to + c, pixels, p->channels);
        }
        for (int32_t w = 0; along_channels != 0 && w < pixels; w++) {
            ge_mve_move(from + w, plane, to + w * p->channels, 1, p->channels);
        }
    }
}
