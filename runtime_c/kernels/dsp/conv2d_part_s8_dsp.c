/* Convolution of int8 [H, W, C] in one group, of some output channels, for Cortex-M4, M7 and M33.
 *
 * p->groups: the number of channels that are computed, from the first one of `stream` and of the pixels of `out` on; 1: all of them.
 * All else is as in conv2d_s8_dsp.c. So weights can be given piece by piece (--prefetch).
 * Needs |sum| < 2^23, and shift 25..32 or what ge_isa_dsp_law.h says. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_columns.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

#define CONV2D_PART_S8_DSP_TILE 16 /* pixels at a time, at most */
#define CONV2D_PART_S8_DSP_LAW 0   /* see ge_isa_dsp_law.h */

/* The matrix product in another law; that of the default law is for all. */
__attribute__((unused, noinline)) static void conv2d_part_s8_dsp_gemm(const ge_dsp_gemm_job *job) {
    register const ge_dsp_gemm_job *r0 __asm__("r0") = job;
    __asm__ volatile(GE_DSP_GEMM(conv2d_part_s8_dsp_gemm, CONV2D_PART_S8_DSP_LAW)
                     : "+r"(r0)
                     : [law] "i"(CONV2D_PART_S8_DSP_LAW)
                     : GE_DSP_GEMM_CHANGES(CONV2D_PART_S8_DSP_LAW));
}

static void ge_conv2d_part_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                  const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    static const ge_dsp_gemm_kind kind = {CONV2D_PART_S8_DSP_LAW == 0 ? ge_dsp_gemm : conv2d_part_s8_dsp_gemm,
                                          GE_DSP_GEMM_STEP, CONV2D_PART_S8_DSP_TILE, CONV2D_PART_S8_DSP_LAW, 2};
    const int32_t channels = p->groups > 1 ? p->groups : p->out_c;
    const ge_dsp_columns_shape s = ge_dsp_columns_shape_of(p, 1, kind.tile, scratch);
    for (int32_t start = first_row * p->out_w; start < last_row * p->out_w; start += s.tile) {
        const int32_t left = last_row * p->out_w - start, count = left < s.tile ? left : s.tile;
        ge_dsp_columns_gather(p, 1, x, out, start, count, 0, kind.tile, scratch);
        (void)ge_dsp_columns_multiply(p, &s, stream, channels, count, 0, &kind);
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            for (int32_t i = 0; i < count; i++) {
                ge_dsp_clamp(s.pixels[i], channels, p->lo, p->hi);
            }
        }
    }
}
