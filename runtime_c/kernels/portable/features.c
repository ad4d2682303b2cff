/* Computes spectra, mel bands or cosine coefficients of frames of sound, in portable C.
 *
 * glowembed/law/spectrum.py and glowembed/ops/features.py define the arithmetic and say what each step rounds.
 */
#include "features_s8.h"
#include "features_steps.h"
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"

#define FEATURES_LOGS 65 /* entries of the table of logarithms; those of the square root follow */

/* The constants of a call, in the order of the signature. */
typedef struct {
    const int32_t *window;
    const int32_t *turns;
    const uint16_t *order;
    const uint16_t *bands;
    const uint16_t *chords;
    const int16_t *cosines;
    const int64_t *floors;
    const GE_SCALE *scale;
    const GE_OFFSET *offset;
} features_tables;

static inline int32_t features_limited(int64_t y, const ge_features_params *p) {
    y >>= p->shift;
    return (int32_t)(y < p->lo ? p->lo : (y > p->hi ? p->hi : y));
}

/* Returns the square root of p, interpolated in a table. */
static uint32_t features_root(uint64_t p, const uint16_t *roots) {
    if (p == 0u) {
        return 0;
    }
    const uint32_t high = (uint32_t)(p >> 32);
    const int32_t e = (high != 0u ? GE_FEATURES_ZEROS(high) : 32 + GE_FEATURES_ZEROS((uint32_t)p)) & ~1;
    const uint32_t t = (uint32_t)((p << e) >> 32);
    const uint32_t i = (t >> 24) - 64u;
    const uint32_t rest = (t >> 8) & 0xFFFFu;
    const uint32_t root = ((uint32_t)roots[i] << 15) + (((uint32_t)(roots[i + 1] - roots[i]) * rest) >> 1);
    return root >> (e / 2 - 1);
}

/* Writes the power of a complex number or, if `roots` is given, its magnitude. */
static inline void features_number(const uint16_t *roots, int32_t re, int32_t im, int32_t *q) {
    const uint64_t square = (uint64_t)((int64_t)re * re + (int64_t)im * im);
    const uint64_t number = roots == NULL ? square >> 16 : features_root(square, roots);
    q[0] = (int32_t)(uint32_t)number;
    q[1] = (int32_t)(uint32_t)(number >> 32);
}

static inline uint64_t features_of(const int32_t *q) {
    return ((uint64_t)(uint32_t)q[1] << 32) | (uint32_t)q[0];
}

/* Writes the powers or magnitudes of the bins up to `last`, from the transform of pairs of samples. Each number has 64
 * bits, lower word first, and replaces its complex number. */
static void features_bins(int32_t *z, int32_t half, int32_t last, const int32_t *turns, const uint16_t *roots) {
    const int32_t re = z[0] >> 1;
    const int32_t im = z[1] >> 1;
    features_number(roots, re + im, 0, z);
    features_number(roots, re - im, 0, z + 2 * half);
    for (int32_t k = 1; k <= half / 2; k++, turns += 2) {
        int32_t *y = z + 2 * (half - k);
        const int32_t zr = z[2 * k] >> 1;
        const int32_t zi = z[2 * k + 1] >> 1;
        const int32_t yr = y[0] >> 1;
        const int32_t yi = y[1] >> 1;
        const int32_t er = (zr + yr) >> 1;
        const int32_t ei = (zi - yi) >> 1;
        const int32_t our = zi + yi;
        const int32_t oi = yr - zr;
        const int32_t tr = GE_FEATURES_LESS(GE_FEATURES_PART(our, turns[0]), oi, turns[1]);
        const int32_t ti = GE_FEATURES_MORE(GE_FEATURES_PART(oi, turns[0]), our, turns[1]);
        if (half - k <= last) {
            features_number(roots, er - tr, ei - ti, y);
        }
        features_number(roots, er + tr, ei + ti, z + 2 * k);
    }
}

static int32_t features_log2(uint64_t x, const uint16_t *logs) {
    const uint32_t high = (uint32_t)(x >> 32);
    const int32_t zeros = high != 0u ? GE_FEATURES_ZEROS(high) : 32 + GE_FEATURES_ZEROS((uint32_t)x);
    const uint32_t t = (uint32_t)((x << zeros) >> 32);
    const uint32_t i = (t >> 25) & 63u;
    const uint32_t rest = (t >> 9) & 0xFFFFu;
    const uint32_t more = ((uint32_t)(logs[i + 1] - logs[i]) * rest + 0x8000u) >> 16;
    return ((63 - zeros) * 65536) + (int32_t)(logs[i] + more);
}

/* Returns the value of band i, whose sum is b; g: the bits of headroom in b. */
static int32_t features_value(const ge_features_params *p, const features_tables *t, int32_t i, uint64_t b, int32_t g) {
    b += (uint64_t)(t->floors[i * p->floor_step] << g) >> p->floor_shift;
    b = b != 0u ? b : 1u;
    if (p->log != 0) {
        return features_log2(b, t->chords) - g * 65536;
    }
    b >>= p->linear_shift + g;
    return b < 0x7FFFFFFFu ? (int32_t)b : 0x7FFFFFFF;
}

static inline void features_write(const ge_features_params *p, const features_tables *t, int32_t i, int32_t v,
                                  GE_ELEMENT *out) {
    out[i] = GE_FEATURE(p, v, t->scale[i * p->scale_step], t->offset[i * p->scale_step]);
}

/* Computes the coefficients; each is a sum over all bands. */
static void features_cosines(const ge_features_params *p, const features_tables *t, const int32_t *values,
                             GE_ELEMENT *out) {
    const int16_t *w = t->cosines;
    for (int32_t k = 0; k < p->coefficients; k++) {
        int64_t sum = (int64_t)1 << 14;
        for (int32_t i = 0; i < p->bands; i++) {
            sum += (int64_t)values[i] * *w++;
        }
        features_write(p, t, k, (int32_t)(sum >> 15), out);
    }
}

/* Computes the bands of a frame and writes them to `out`, or to `values` if cosine coefficients follow. */
static void features_bands(const ge_features_params *p, const features_tables *t, const int32_t *q, int32_t g,
                           int32_t *values, GE_ELEMENT *out) {
    const uint16_t *ramp = t->bands + p->bands + 1;
    uint64_t falling = 0;
    for (int32_t s = 0; s <= p->bands; s++) {
        uint64_t sum = 0;
        uint64_t rising = 0;
        for (int32_t i = 0; i < t->bands[s]; i++) {
            sum += features_of(q);
            rising += features_of(q) * *ramp++;
            q += 2;
        }
        if (s > 0) {
            const int32_t v = features_value(p, t, s - 1, falling + (sum << 15) - rising, g);
            if (p->coefficients != 0) {
                values[s - 1] = v;
            } else {
                features_write(p, t, s - 1, v, out);
            }
        }
        falling = rising;
    }
}

/* Writes a spectrogram, in which each bin is a band. */
static void features_each(const ge_features_params *p, const features_tables *t, const int32_t *q, int32_t g,
                          GE_ELEMENT *out) {
    for (int32_t i = 0; i < p->bins; i++) {
        features_write(p, t, i, features_value(p, t, i, features_of(q + 2 * i) << 15, g), out);
    }
}

static void features_frame(const ge_features_params *p, const features_tables *t, const int16_t *x, int32_t *z,
                           GE_ELEMENT *out) {
    const int32_t half = p->points / 2;
    const uint16_t *roots = p->power != 0 ? NULL : t->chords + FEATURES_LOGS;
    const int32_t h = GE_FEATURES_HEADROOM(x, p->window);
    const int32_t g = p->power != 0 ? 2 * h : h;
    int32_t *values = z + p->points + 2;
    for (int32_t size = GE_FEATURES_FIRST(x, t->window, t->order, half, h, z); size < half; size *= 4) {
        GE_FEATURES_STAGE(z, half, size, t->turns);
    }
    features_bins(z, half, p->first + p->bins - 1, t->turns + half / 4 * 6, roots);
    if (p->bands == 0) {
        features_each(p, t, z, g, out);
        return;
    }
    features_bands(p, t, z + 2 * p->first, g, values, out);
    if (p->coefficients != 0) {
        features_cosines(p, t, values, out);
    }
}

static void ge_features(const ge_features_params *p, const ge_rows *x, const int32_t *window, const int32_t *turns,
                        const uint16_t *order, const uint16_t *bands, const uint16_t *chords, const int16_t *cosines,
                        const int64_t *floors, const GE_SCALE *scale, const GE_OFFSET *offset, const ge_rows *out,
                        int32_t first_row, int32_t last_row, void *scratch) {
    const features_tables t = {window, turns, order, bands, chords, cosines, floors, scale, offset};
    int32_t *z = (int32_t *)scratch;
    int16_t *sound = (int16_t *)(z + p->points + 2 + (p->coefficients != 0 ? p->bands : 0));
    const size_t bytes = (size_t)p->step * sizeof *sound;
    memset(sound + p->window, 0, (size_t)(p->points - p->window) * sizeof *sound);
    for (int32_t y = first_row; y < last_row; y++) {
        for (int32_t i = 0; i < p->window / p->step; i++) {
            memcpy(sound + i * p->step, ge_row(x, y * p->hop + i), bytes);
        }
        features_frame(p, &t, sound, z, (GE_ELEMENT *)ge_row(out, y));
    }
}
