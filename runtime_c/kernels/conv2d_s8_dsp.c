/* Convolution of int8 [H, W, C] with any window, stride, dilation and group, for Cortex-M4, M7 and M33.
 *
 * By columns (ge_isa_dsp_columns.h says how, and what is in scratch), with two channels in a half-word (ge_isa_dsp.h).
 * Needs shift 25..32 and |sum| < 2^23. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_columns.h"
#include "ge_params.h"

#define CONV2D_S8_DSP_TILE 16 /* pixels at a time, at most */

static void ge_conv2d_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream, const ge_rows *out,
                             int32_t first_row, int32_t last_row, void *scratch) {
    static const ge_dsp_gemm_kind kind = {ge_dsp_gemm, GE_DSP_GEMM_STEP, CONV2D_S8_DSP_TILE};
    ge_dsp_columns(p, x, stream, out, first_row, last_row, scratch, &kind);
}
