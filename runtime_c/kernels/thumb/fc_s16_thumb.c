/* Fully connected: int16 rows with plain int8 or int16 weights, [out_c, in_c], and 32-bit sums, four outputs at a time,
 * for Cortex-M0, M0+, M1 and M3.
 *
 * The shift must be 32 and the sums below 2^31. scratch: the state, then the sums of a row. */
#include "ge.h"
#include "ge_params.h"
#include "wide.h"

#define FC_S16_THUMB_WEIGHT int8_t /* or int16_t */

typedef struct {
    ge_wide_four_block block;
    int16_t *outs[1];
    ge_wide_outputs outputs;
} fc_s16_thumb_state;

/* Computes the sums of one row, bias included. */
static GE_NOINLINE void fc_s16_thumb_row(const ge_fc_s16_params *p, ge_wide_four_block *block, const int16_t *row,
                                         const FC_S16_THUMB_WEIGHT *weights, const int32_t *bias, int32_t *sums) {
    const int32_t bytes = (int32_t)sizeof *weights;
    for (int32_t oc = 0; oc < p->out_c;) {
        const int32_t count = p->out_c - oc < 4 ? 1 : 4;
        block->weights = (const int8_t *)(const void *)(weights + (oc + 1) * p->in_c);
        block->pitch = count > 1 ? p->in_c * bytes : 0;
        block->left = -p->in_c * bytes;
        block->x = (const int8_t *)(const void *)(row + p->in_c) + GE_WIDE_FOUR_FROM(block->left, bytes);
        if (bytes == 1) {
            ge_wide_four_bytes(block);
        } else {
            ge_wide_four_halves(block);
        }
        for (int32_t i = 0; i < count; i++, oc++) {
            sums[oc] = bias[oc] + block->sums[i];
        }
    }
}

static void ge_fc_s16_thumb(const ge_fc_s16_params *p, const ge_rows *x, const FC_S16_THUMB_WEIGHT *weights,
                            const int32_t *bias, const int32_t *multiplier, const ge_rows *out, int32_t first_row,
                            int32_t last_row, void *scratch) {
    fc_s16_thumb_state *const s = (fc_s16_thumb_state *)scratch;
    int32_t *const sums = (int32_t *)(void *)(s + 1);
    s->outputs.outs = s->outs;
    s->outputs.skip = 0;
    s->outputs.offset = 0;
    s->outputs.zero_point = p->out_zero_point;
    s->outputs.lo = p->lo;
    s->outputs.hi = p->hi;
    for (int32_t y = first_row; y < last_row; y++) {
        fc_s16_thumb_row(p, &s->block, (const int16_t *)ge_row(x, y), weights, bias, sums);
        s->outs[0] = (int16_t *)ge_row(out, y);
        s->outputs.sums = sums;
        s->outputs.multiplier = multiplier;
        s->outputs.channels = p->out_c;
        ge_wide_finish(&s->outputs);
    }
}
