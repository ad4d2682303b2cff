/* Mean of each window of int16 [H, W, C], requantized by VMULH and a rounding shift: Helium.
 *
 * The sums of all channels lie in scratch. With a shift of 33 or more the requantization is exact, since the half that
 * is added is a multiple of 2^32; with a smaller shift the sums are shifted left first to make up for the
 * difference. */
#include "ge.h"
#include "ge_mve_wide_pool.h"
#include "ge_params.h"

/* Parameters of the requantization, in the order in which the loop loads them. */
typedef struct {
    int32_t lo, hi, multiplier;
    int32_t zero; /* the sum of the zero points */
    int32_t shift, zero_point;
    int32_t left;
} avgpool_s16_mve_law;

/* Requantizes `count` sums to means: 9 instructions for four. */
static inline void avgpool_s16_mve_means(const avgpool_s16_mve_law *law, const int32_t *sums, int32_t count,
                                         int16_t *o) {
    __asm__ volatile("ldrd r4, r5, [%[law]]\n"
                     "vdup.32 q1, r4\n"
                     "vdup.32 q2, r5\n"
                     "ldrd r4, r5, [%[law], #8]\n"
                     "vdup.32 q3, r4\n"
                     "ldrd r4, r6, [%[law], #16]\n"
                     "ldr r8, [%[law], #24]\n"
                     "wlstp.32 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrw.u32 q0, [%[sums]], #16\n"
                     "vsub.i32 q0, q0, r5\n"
                     "vshl.s32 q0, r8\n"
                     "vmulh.s32 q0, q0, q3\n"
                     "vrshl.s32 q0, r4\n"
                     "vqadd.s32 q0, q0, r6\n"
                     "vmax.s32 q0, q0, q1\n"
                     "vmin.s32 q0, q0, q2\n"
                     "vstrh.32 q0, [%[o]], #8\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [sums] "+&r"(sums), [o] "+&l"(o)
                     : [count] "r"(count), [law] "r"(law)
                     : "r4", "r5", "r6", "r8", "lr", "q0", "q1", "q2", "q3", "memory");
}

static void ge_avgpool_s16_mve(const ge_avgpool_params *p, const ge_rows *x, const int32_t *multiplier,
                               const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    int32_t *const sums = (int32_t *)scratch;
    const int32_t left_shift = p->shift < 33 ? 33 - p->shift : 0;
    avgpool_s16_mve_law law = {p->lo, p->hi, 0, 0, 32 - left_shift - p->shift, p->out_zero_point, left_shift};
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t top = y * p->stride_h - p->pad_top;
        const ge_thumb_span rows = ge_thumb_span_of(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        const ge_thumb_span down = ge_thumb_span_of(top, p->kernel_h, p->dilation_h, p->count_top, p->count_bottom);
        const int32_t first = (down.last - down.first - p->min_rows) * p->table_columns - p->min_columns;
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int32_t left = ox * p->stride_w - p->pad_left;
            const ge_thumb_span columns = ge_thumb_span_of(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            const ge_thumb_span across =
                ge_thumb_span_of(left, p->kernel_w, p->dilation_w, p->count_left, p->count_right);
            ge_mve_fill((int8_t *)sums, 0, 4 * p->channels);
            for (int32_t ky = rows.first; ky < rows.last; ky++) {
                const int16_t *at = GE_THUMB_TAP(int16_t, p, x, left, &columns, top + ky * p->dilation_h, 0);
                for (int32_t kx = columns.first; kx < columns.last; kx++) {
                    ge_mve_wide_add_s16(sums, at, p->channels);
                    at += p->dilation_w * p->channels;
                }
            }
            law.zero = (rows.last - rows.first) * (columns.last - columns.first) * p->in_zero_point;
            law.multiplier = multiplier[first + across.last - across.first];
            avgpool_s16_mve_means(&law, sums, p->channels, o);
            o += p->channels;
        }
    }
}
