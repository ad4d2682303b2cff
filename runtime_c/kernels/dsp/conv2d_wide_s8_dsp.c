/* Convolution of int8 [H, W, C] with any window, stride, dilation and group, for Cortex-M4, M7 and M33.
 *
 * It works by columns (ge_isa_dsp_columns.h explains how, and what is in scratch), with any weights and sums of 32
 * bits, for layers that conv2d_s8_dsp cannot compute. Cost: ge_dsp_gemm_wide takes 18 cycles for 16 products. It
 * requires shift 25..32. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_columns.h"
#include "ge_params.h"

static void ge_conv2d_wide_s8_dsp(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *stream,
                                  const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    static const ge_dsp_gemm_kind kind = {ge_dsp_gemm_wide, GE_DSP_GEMM_WIDE_STEP, GE_DSP_COLUMNS_TILE_MAX, 0, 2};
    ge_dsp_columns(p, x, stream, out, first_row, last_row, scratch, &kind);
}
