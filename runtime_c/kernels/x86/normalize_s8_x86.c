/* Normalization of int8 vectors of at most 256 elements that follow each other: one source for every level of x86-64.
 * The sums of a vector and its outputs are computed as many at a time as a register holds. */
#include "ge.h"
#include "ge_params.h"
#include "ge_root.h"
#include "ge_x86_ints.h"

/* Adds up the numbers of a vector. */
static inline GE_X86_INLINE int32_t normalize_s8_x86_total(ge_x86_ints x) {
    int32_t parts[16], total = 0;
    ge_x86_store_ints(parts, x);
    for (int32_t i = 0; i < GE_X86_FLOATS; i++) {
        total += parts[i];
    }
    return total;
}

static GE_X86_FN void normalize_s8_x86_vector(const ge_normalize_params *p, const int8_t *x, const int32_t *scale,
                                              const int32_t *shift, const uint16_t *roots, int8_t *out) {
    const int32_t n = p->channels;
    const ge_x86_wide_law law = ge_x86_wide_law_of(32, 0, INT32_MIN, INT32_MAX);
    const ge_x86_ints lo = ge_x86_ints_all(p->lo), hi = ge_x86_ints_all(p->hi);
    ge_x86_ints sums = ge_x86_ints_all(0), squares = sums;
    for (int32_t c = 0; c < n; c += GE_X86_FLOATS) {
        const ge_x86_ints v = ge_x86_some_elements_at(x + c, n - c, 1);
        sums = sums + v;
        squares = squares + v * v;
    }
    const int64_t sum = normalize_s8_x86_total(sums), zero = p->zero_point;
    const int64_t power = normalize_s8_x86_total(squares) - 2 * zero * sum + n * zero * zero;
    const int64_t subtracted = p->centred != 0 ? sum - n * zero : 0;
    const int64_t epsilon = ((int64_t)p->epsilon_high << 31) + p->epsilon_low;
    const uint64_t w = ((uint64_t)(n * power - subtracted * subtracted) << p->variance_bits) + (uint64_t)epsilon;
    const ge_x86_ints root = ge_x86_ints_all((int32_t)ge_root(w != 0u ? w : 1u, roots, p->root_shift));
    const ge_x86_ints count = ge_x86_ints_all(n), mean = ge_x86_ints_all((int32_t)(n * zero + subtracted));
    for (int32_t c = 0; c < n; c += GE_X86_FLOATS) {
        /* Only what is behind the vector wraps around. */
        const ge_x86_ints h = ge_x86_low_product(ge_x86_some_elements_at(x + c, n - c, 1) * count - mean, root);
        const ge_x86_ints scaled = ge_x86_scaled(h, ge_x86_some_elements_at(scale + c, n - c, 4), &law);
        const ge_x86_ints y = (scaled + ge_x86_some_elements_at(shift + c, n - c, 4)) >> p->bits;
        ge_x86_store_some_elements(out + c, ge_x86_least(ge_x86_most(y, lo), hi), n - c, 1);
    }
}

static GE_X86_FN void ge_normalize_s8_x86(const ge_normalize_params *p, const ge_rows *x, const int32_t *scale,
                                          const int32_t *shift, const uint16_t *roots, const ge_rows *out,
                                          int32_t first_row, int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        for (int32_t k = 0; k < p->parts; k++) {
            normalize_s8_x86_vector(p, (const int8_t *)ge_row(x, y) + k * p->channels, scale, shift, roots,
                                    (int8_t *)ge_row(out, y) + k * p->channels);
        }
    }
}
