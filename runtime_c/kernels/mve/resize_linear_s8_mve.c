/* Weighted sums of two rows and two columns of int8 [H, W, C], where the weights of an output sum to at most 256:
 * Helium.
 *
 * The sums of two rows are int16 in scratch, one for each element of an input row; those of two columns of them fit int16 too, and
 * VRSHL is the law's rounding. */
#include "ge.h"
#include "ge_mve.h"
#include "ge_params.h"

/* Computes `count` weighted sums of two rows. */
static inline void resize_linear_s8_mve_rows(const int8_t *a, const int8_t *b, const int16_t *weight, int32_t count,
                                             int16_t *to) {
    __asm__ volatile("wlstp.16 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.s16 q0, [%[a]], #8\n"
                     "vldrb.s16 q1, [%[b]], #8\n"
                     "vmul.i16 q0, q0, %[of_a]\n"
                     "vmla.s16 q0, q1, %[of_b]\n"
                     "vstrh.16 q0, [%[to]], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [a] "+&l"(a), [b] "+&l"(b), [to] "+&r"(to)
                     : [count] "r"(count), [of_a] "r"((int32_t)weight[0]), [of_b] "r"((int32_t)weight[1])
                     : "lr", "q0", "q1", "memory");
}

/* Computes the channels of an output: weighted sums of two columns, times 2^-down. */
static inline void resize_linear_s8_mve_columns(const int16_t *a, const int16_t *b, const int16_t *weight,
                                                int32_t channels, int32_t down, int8_t *o) {
    __asm__ volatile(
        "wlstp.16 lr, %[count], 2f\n"
        "1:\n"
        "vldrh.u16 q0, [%[a]], #16\n"
        "vldrh.u16 q1, [%[b]], #16\n"
        "vmul.i16 q0, q0, %[of_a]\n"
        "vmla.s16 q0, q1, %[of_b]\n"
        "vrshl.s16 q0, %[down]\n"
        "vstrb.16 q0, [%[o]], #8\n"
        "letp lr, 1b\n"
        "2:\n"
        : [a] "+&r"(a), [b] "+&r"(b), [o] "+&l"(o)
        : [count] "r"(channels), [of_a] "r"((int32_t)weight[0]), [of_b] "r"((int32_t)weight[1]), [down] "r"(down)
        : "lr", "q0", "q1", "memory");
}

static void ge_resize_linear_s8_mve(const ge_resize_params *p, const ge_rows *x, const int32_t *row_at,
                                    const int16_t *row_weight, const int32_t *column_at, const int16_t *column_weight,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    int16_t *const sums = (int16_t *)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        resize_linear_s8_mve_rows((const int8_t *)ge_row(x, row_at[2 * y]),
                                  (const int8_t *)ge_row(x, row_at[2 * y + 1]), row_weight + 2 * y,
                                  p->in_w * p->channels, sums);
        for (int32_t i = 0; i < 2 * p->out_w; i += 2) {
            resize_linear_s8_mve_columns(sums + column_at[i], sums + column_at[i + 1], column_weight + i, p->channels,
                                         -p->shift, o);
            o += p->channels;
        }
    }
}
