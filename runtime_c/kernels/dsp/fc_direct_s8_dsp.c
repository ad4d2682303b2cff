/* Fully connected layer of int8 vectors for Cortex-M4, M7 and M33, without scratch: the vector is expanded again for
 * every 4 outputs.
 *
 * Cost: 20 cycles for 16 products; ge_isa_dsp_fc.h has the rest. It requires shift 25..32, or the conditions of
 * ge_isa_dsp_law.h, and a multiple of four inputs. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_fc.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

#define FC_DIRECT_S8_DSP_STEP 76
#define FC_DIRECT_S8_DSP_LAW 0 /* see ge_isa_dsp_law.h */

__attribute__((noinline)) static void fc_direct_s8_dsp_outputs(const ge_dsp_fc_job *job) {
    register const ge_dsp_fc_job *r0 __asm__("r0") = job;
    __asm__ volatile(GE_DSP_FC_BEGIN(fc_direct_s8_dsp_outputs,
                                     FC_DIRECT_S8_DSP_LAW) "    ldr.w r6, [r1], #4\n" GE_DSP_FC_WEIGHTS
                                                           "    sxtb16 r8, r6, ror #8\n"
                                                           "    sxtb16 r6, r6\n" GE_DSP_FC_PRODUCTS GE_DSP_FC_END(
                                                               FC_DIRECT_S8_DSP_LAW)
                     : "+r"(r0)
                     : [law] "i"(FC_DIRECT_S8_DSP_LAW)
                     : GE_DSP_FC_CHANGES(FC_DIRECT_S8_DSP_LAW));
}

static void ge_fc_direct_s8_dsp(const ge_fc_params *p, const ge_rows *x, const uint32_t *stream, const ge_rows *out,
                                int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        ge_dsp_fc_vector(p, ge_row(x, y), stream, (int8_t *)ge_row(out, y), FC_DIRECT_S8_DSP_STEP, FC_DIRECT_S8_DSP_LAW,
                         fc_direct_s8_dsp_outputs);
    }
}
