/* Fully connected layer of int8 vectors for Cortex-M4, M7 and M33: the vector is expanded once to int16.
 *
 * Cost: 19 cycles for 16 products; ge_isa_dsp_fc.h has the rest. scratch: the vector as int16. It requires shift
 * 25..32, or the conditions of ge_isa_dsp_law.h. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_fc.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

#define FC_S8_DSP_STEP 72
#define FC_S8_DSP_LAW 0 /* see ge_isa_dsp_law.h */

__attribute__((noinline)) static void fc_s8_dsp_outputs(const ge_dsp_fc_job *job) {
    register const ge_dsp_fc_job *r0 __asm__("r0") = job;
    __asm__ volatile(GE_DSP_FC_BEGIN(fc_s8_dsp_outputs,
                                     FC_S8_DSP_LAW) "    ldr.w r8, [r1, #4]\n"
                                                    "    ldr.w r6, [r1], #8\n" GE_DSP_FC_WEIGHTS GE_DSP_FC_PRODUCTS
                                                        GE_DSP_FC_END(FC_S8_DSP_LAW)
                     : "+r"(r0)
                     : [law] "i"(FC_S8_DSP_LAW)
                     : GE_DSP_FC_CHANGES(FC_S8_DSP_LAW));
}

static void ge_fc_s8_dsp(const ge_fc_params *p, const ge_rows *x, const uint32_t *stream, const ge_rows *out,
                         int32_t first_row, int32_t last_row, void *scratch) {
    uint32_t *const column = (uint32_t *)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        uint32_t *const end = ge_dsp_expand_dense((const int8_t *)ge_row(x, y), p->in_c, column);
        *end = 0; /* an odd number of words: the last one is multiplied by zeros, but must be initialized */
        ge_dsp_fc_vector(p, column, stream, (int8_t *)ge_row(out, y), FC_S8_DSP_STEP, FC_S8_DSP_LAW, fc_s8_dsp_outputs);
    }
}
