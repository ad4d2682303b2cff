/* Convolution of int8 [H, W, C] with any window, stride, dilation and group, for Cortex-M4, M7 and M33.
 *
 * It works by columns (ge_isa_dsp_columns.h explains how, and what is in scratch), with two channels in a half-word
 * (ge_isa_dsp.h). It requires |sum| < 2^23, and shift 25..32 or the conditions of ge_isa_dsp_law.h. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_columns.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

#define CONV2D_S8_DSP_TILE 16 /* pixels at a time, at most */
#define CONV2D_S8_DSP_LAW 0   /* see ge_isa_dsp_law.h */

/* The matrix product for another law; all kernels share that of the default law. */
__attribute__((unused, noinline)) static void conv2d_s8_dsp_gemm(const ge_dsp_gemm_job *job) {
    register const ge_dsp_gemm_job *r0 __asm__("r0") = job;
    __asm__ volatile(GE_DSP_GEMM(conv2d_s8_dsp_gemm, CONV2D_S8_DSP_LAW)
                     : "+r"(r0)
                     : [law] "i"(CONV2D_S8_DSP_LAW)
                     : GE_DSP_GEMM_CHANGES(CONV2D_S8_DSP_LAW));
}

static void ge_conv2d_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream, const ge_rows *out,
                             int32_t first_row, int32_t last_row, void *scratch) {
    static const ge_dsp_gemm_kind kind = {CONV2D_S8_DSP_LAW == 0 ? ge_dsp_gemm : conv2d_s8_dsp_gemm, GE_DSP_GEMM_STEP,
                                          CONV2D_S8_DSP_TILE, CONV2D_S8_DSP_LAW, 2};
    ge_dsp_columns(p, x, stream, out, first_row, last_row, scratch, &kind);
}
