/* Normalizes groups: subtracts the group's mean, divides by its standard deviation, scales and shifts, in portable C.
 *
 * glowembed/ops/normalization.py defines the arithmetic. This file also makes the kernel for int16.
 */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"
#include "ge_root.h"

#define NORMALIZE_S8_ELEMENT int8_t /* or int16_t */

/* Returns variance plus epsilon of a group, times n^2 << variance_bits, and at least 1; sets *sum to the group's sum,
 * or to 0 if the mean is not subtracted. */
static uint64_t normalize_s8_variance(const ge_normalize_params *p, const NORMALIZE_S8_ELEMENT *x, int64_t *sum) {
    const int64_t n = (int64_t)p->positions * p->channels;
    const int64_t epsilon = ((int64_t)p->epsilon_high << 31) + p->epsilon_low;
    int64_t squares = 0;
    *sum = 0;
    for (int32_t i = 0; i < p->positions; i++) {
        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t v = x[c] - p->zero_point;
            *sum += v;
            squares += (int64_t)v * v;
        }
        x += p->groups * p->channels;
    }
    *sum = p->centred != 0 ? *sum : 0;
    const uint64_t w = ((uint64_t)(n * squares - *sum * *sum) << p->variance_bits) + (uint64_t)epsilon;
    return w != 0u ? w : 1u;
}

static void normalize_s8_group(const ge_normalize_params *p, const NORMALIZE_S8_ELEMENT *x, const int32_t *scale,
                               const int32_t *shift, const uint16_t *roots, NORMALIZE_S8_ELEMENT *out) {
    const int64_t n = (int64_t)p->positions * p->channels;
    const int64_t half = ((int64_t)1 << p->extra) >> 1;
    int64_t sum;
    const uint64_t w = normalize_s8_variance(p, x, &sum);
    const int64_t root = (int64_t)ge_root(w, roots, p->root_shift);
    for (int32_t i = 0; i < p->positions; i++) {
        for (int32_t c = 0; c < p->channels; c++) {
            const int64_t h = ((n * (x[c] - p->zero_point) - sum) * root + half) >> p->extra;
            const int64_t fine = (h * scale[c] + ((int64_t)shift[c] * 4294967296) + 2147483648) >> 32;
            out[c] = (NORMALIZE_S8_ELEMENT)ge_clamp((int32_t)fine >> p->bits, p->lo, p->hi);
        }
        x += p->groups * p->channels;
        out += p->groups * p->channels;
    }
}

static void ge_normalize_s8(const ge_normalize_params *p, const ge_rows *x, const int32_t *scale, const int32_t *shift,
                            const uint16_t *roots, const ge_rows *out, int32_t first_row, int32_t last_row,
                            void *scratch) {
    const int32_t part = p->positions * p->groups * p->channels;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const NORMALIZE_S8_ELEMENT *v = (const NORMALIZE_S8_ELEMENT *)ge_row(x, y);
        NORMALIZE_S8_ELEMENT *o = (NORMALIZE_S8_ELEMENT *)ge_row(out, y);
        for (int32_t k = 0; k < p->parts; k++) {
            for (int32_t g = 0; g < p->groups; g++) {
                const int32_t c = g * p->channels;
                normalize_s8_group(p, v + k * part + c, scale + c, shift + c, roots, o + k * part + c);
            }
        }
    }
}
