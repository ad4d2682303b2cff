/* Convolution 1x1 of int8 [H, W, C] without padding, of some output channels, for Cortex-M4, M7 and M33.
 *
 * p->groups: the number of channels that are computed, from the first one of `stream` and of the pixels of `out` on, a multiple of
 * 4; 1: all of them. All else is as in conv2d_points_s8_dsp.c. So weights can be given piece by piece (--prefetch).
 *
 * scratch: a list of pixels. Needs |sum| < 2^23, and shift 25..32 or what ge_isa_dsp_law.h says. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_law.h"
#include "ge_isa_dsp_points.h"
#include "ge_params.h"

#define CONV2D_POINTS_PART_S8_DSP_TILE 16 /* pixels at a time, at most */
#define CONV2D_POINTS_PART_S8_DSP_DOWN 8  /* 8 - (32 - shift) */
#define CONV2D_POINTS_PART_S8_DSP_LAW 0   /* see ge_isa_dsp_law.h */

__attribute__((unused, noinline)) static void conv2d_points_part_s8_dsp_products(const ge_dsp_points_job *job) {
    register const ge_dsp_points_job *r0 __asm__("r0") = job;
    __asm__ volatile(GE_DSP_POINTS(conv2d_points_part_s8_dsp_products, CONV2D_POINTS_PART_S8_DSP_LAW)
                     : "+r"(r0)
                     : [down] "i"(CONV2D_POINTS_PART_S8_DSP_DOWN), [law] "i"(CONV2D_POINTS_PART_S8_DSP_LAW)
                     : GE_DSP_POINTS_CHANGES(CONV2D_POINTS_PART_S8_DSP_LAW));
}

static void ge_conv2d_points_part_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                         const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    static const ge_dsp_points_kind kind = {
        CONV2D_POINTS_PART_S8_DSP_LAW == 0 && CONV2D_POINTS_PART_S8_DSP_DOWN == 8 ? ge_dsp_points_products
                                                                                  : conv2d_points_part_s8_dsp_products,
        CONV2D_POINTS_PART_S8_DSP_TILE, GE_DSP_LAW_WORDS(CONV2D_POINTS_PART_S8_DSP_LAW)};
    const int32_t step = p->stride_w * p->in_c;
    const int32_t tile = ge_dsp_points_tile(p->in_c, kind.tile);
    const int32_t together = x->slots == NULL && out->slots == NULL && x->stride * p->stride_h == p->out_w * step &&
                             out->stride == p->out_w * p->out_c;
    const int32_t pixels = together ? (last_row - first_row) * p->out_w : p->out_w;
    ge_dsp_points_job job = {NULL, NULL, NULL, NULL, stream, p->out_zero_point, 0, 0, 0};
    ge_conv2d_params part = *p;
    if (p->groups > 1) {
        part.out_c = p->groups;
    }
    ge_dsp_points_enter(p->in_c, &job);
    for (int32_t y = first_row; y < last_row; y = together ? last_row : y + 1) {
        const int8_t *from = (const int8_t *)ge_row(x, y * p->stride_h);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t done = 0; done < pixels; done += tile) {
            const int32_t count = pixels - done < tile ? pixels - done : tile;
            ge_dsp_points_list(from, step, p->in_c, count, (uint32_t *)scratch);
            job.x = (const uint32_t *)scratch;
            job.out = o;
            if (count > 1) {
                ge_dsp_points_pairs(&part, &kind, &job, count >> 1, p->out_c);
            }
            if ((count & 1) != 0) {
                job.x = (const uint32_t *)scratch + (count >> 1) * ((p->in_c + 1) & ~1);
                job.out = o + (count - 1) * p->out_c;
                ge_dsp_points_pairs(&part, &kind, &job, 1, 0);
            }
            for (int32_t i = 0; i < count && (p->lo > INT8_MIN || p->hi < INT8_MAX); i++) {
                ge_dsp_clamp(o + i * p->out_c, part.out_c, p->lo, p->hi);
            }
            from += count * step;
            o += count * p->out_c;
        }
    }
}
