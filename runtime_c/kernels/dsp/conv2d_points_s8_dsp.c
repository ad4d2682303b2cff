/* 1x1 convolution of int8 [H, W, C] without padding, in one group, for Cortex-M4, M7 and M33.
 *
 * All shapes share one loop (ge_isa_dsp_points.h explains how); each other law and each shift below 32 has its own.
 *
 * scratch: a list of pixels. It requires |sum| < 2^23, and shift 25..32 or the conditions of ge_isa_dsp_law.h. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_law.h"
#include "ge_isa_dsp_points.h"
#include "ge_params.h"

#define CONV2D_POINTS_S8_DSP_TILE 16 /* pixels at a time, at most */
#define CONV2D_POINTS_S8_DSP_DOWN 8  /* 8 - (32 - shift) */
#define CONV2D_POINTS_S8_DSP_LAW 0   /* see ge_isa_dsp_law.h */

__attribute__((unused, noinline)) static void conv2d_points_s8_dsp_products(const ge_dsp_points_job *job) {
    register const ge_dsp_points_job *r0 __asm__("r0") = job;
    __asm__ volatile(GE_DSP_POINTS(conv2d_points_s8_dsp_products, CONV2D_POINTS_S8_DSP_LAW)
                     : "+r"(r0)
                     : [down] "i"(CONV2D_POINTS_S8_DSP_DOWN), [law] "i"(CONV2D_POINTS_S8_DSP_LAW)
                     : GE_DSP_POINTS_CHANGES(CONV2D_POINTS_S8_DSP_LAW));
}

static void ge_conv2d_points_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    static const ge_dsp_points_kind kind = {CONV2D_POINTS_S8_DSP_LAW == 0 && CONV2D_POINTS_S8_DSP_DOWN == 8
                                                ? ge_dsp_points_products
                                                : conv2d_points_s8_dsp_products,
                                            CONV2D_POINTS_S8_DSP_TILE, GE_DSP_LAW_WORDS(CONV2D_POINTS_S8_DSP_LAW)};
    ge_dsp_points(p, x, stream, out, first_row, last_row, (uint32_t *)scratch, &kind);
}
