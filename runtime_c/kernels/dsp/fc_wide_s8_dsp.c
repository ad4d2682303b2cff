/* Fully connected layer of int8 vectors for Cortex-M4, M7 and M33 with any weights and sums of 32 bits: for layers that
 * fc_s8_dsp cannot compute.
 *
 * The vector is expanded once to int16. A step is 4 k of 4 outputs, one word of weights for each output: r0 weights, r1
 * x, r2-r5 sums, r6 r8 the int16 pairs (x0, x2) and (x1, x3), r9-r12 weights. Cost: 23 cycles for 16 products;
 * ge_isa_dsp_fc.h has the rest. All sums are modulo 2^32. scratch: the vector as int16. It requires shift 25..32. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_fc.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

#define FC_WIDE_S8_DSP_STEP 88
#define FC_WIDE_S8_DSP_LAW 0

/* clang-format off */

/* Adds four k of an output. */
#define FC_WIDE_S8_DSP_PRODUCTS(weights, sum) \
    "    sxtb16 lr, " weights ", ror #8\n" \
    "    sxtb16 " weights ", " weights "\n" \
    "    smlad " sum ", lr, r8, " sum "\n" \
    "    smlad " sum ", " weights ", r6, " sum "\n"

__attribute__((noinline)) static void fc_wide_s8_dsp_outputs(const ge_dsp_fc_job *job) {
    register const ge_dsp_fc_job *r0 __asm__("r0") = job;
    __asm__ volatile(
        GE_DSP_FC_BEGIN(fc_wide_s8_dsp_outputs, FC_WIDE_S8_DSP_LAW)
        "    ldr.w r8, [r1, #4]\n"
        "    ldr.w r6, [r1], #8\n"
        GE_DSP_FC_WEIGHTS
        FC_WIDE_S8_DSP_PRODUCTS("r9", "r2")
        FC_WIDE_S8_DSP_PRODUCTS("r10", "r3")
        FC_WIDE_S8_DSP_PRODUCTS("r11", "r4")
        FC_WIDE_S8_DSP_PRODUCTS("r12", "r5")
        GE_DSP_FC_LOOP
        "    ldr.w r12, [sp, #4*6]\n"
        "    rsb r12, r12, #8\n"
        "    lsl r2, r2, r12\n"
        "    lsl r3, r3, r12\n"
        "    lsl r4, r4, r12\n"
        "    lsl r5, r5, r12\n"
        GE_DSP_FC_OUTPUTS(FC_WIDE_S8_DSP_LAW)
        : "+r"(r0)
        : [law] "i"(FC_WIDE_S8_DSP_LAW)
        : GE_DSP_FC_CHANGES(FC_WIDE_S8_DSP_LAW), "lr");
}

/* clang-format on */

static void ge_fc_wide_s8_dsp(const ge_fc_params *p, const ge_rows *x, const uint32_t *stream, const ge_rows *out,
                              int32_t first_row, int32_t last_row, void *scratch) {
    uint32_t *const column = (uint32_t *)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        uint32_t *const end = ge_dsp_expand_dense((const int8_t *)ge_row(x, y), p->in_c, column);
        *end = 0; /* an odd number of words: the last one is multiplied by zeros, but must be initialized */
        ge_dsp_fc_vector(p, column, stream, (int8_t *)ge_row(out, y), FC_WIDE_S8_DSP_STEP, FC_WIDE_S8_DSP_LAW,
                         fc_wide_s8_dsp_outputs);
    }
}
