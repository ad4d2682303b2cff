/* Sixteen sums at a time in plain C: it defines the functions that the x86 kernels are written with.
 *
 * Inputs become elements x + 128, in scratch, of the type that a level multiplies best; weights are stored as [16
 * outputs][4 inputs] and the sums of one such block are 16 int32, so one image of the constants serves every level. 128
 * * sum(w) is already subtracted from the bias. A file that uses these functions is emitted once for each level, with
 * the name of the level in place of x86.
 */
#ifndef GE_X86_PORTABLE_H
#define GE_X86_PORTABLE_H

#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_x86.h"
#include "ge_x86_level.h"

typedef uint8_t ge_x86_element;
typedef int8_t ge_x86_tap; /* a weight as it is multiplied */

#define GE_X86_TAPS_BYTES(count) ((count) * 0) /* scratch for weights that are not read from the image */
#define GE_X86_TOGETHER 4                      /* inputs that are multiplied and summed at once */
#define GE_X86_WINOGRAD 0                      /* whether this level uses ge_x86_winograd.h */
#define GE_X86_ROW_PAIRS 0                     /* whether it uses ge_x86_row_pairs.h */
#define GE_X86_BYTES 0                         /* whether it uses ge_x86_bytes.h */
#define GE_X86_SWEEP 0                         /* whether it uses ge_x86_sweep.h */
#define GE_X86_SQUARES 0                       /* whether it uses ge_x86_square.h */
#define GE_X86_SHORTS 0                        /* whether outputs are shorts in int32 lanes */

typedef struct {
    int32_t lane[16];
} ge_x86_sums;

typedef struct {
    const int8_t *at;
} ge_x86_weights;

typedef int32_t ge_x86_register; /* as many sums as a register holds: GE_X86_FLOATS */

typedef struct {
    int32_t x[4];
} ge_x86_input;

typedef struct {
    int32_t shift;
    int32_t zero_point;
    int32_t lo;
    int32_t hi;
} ge_x86_law;

/* The tiles of pixels by vectors of 16 outputs that code exists for, the widest vectors first; each width down to 1
 * pixel. */
#define GE_X86_TILES(T) T(1, 1)

/* Those of kernels of three columns, 2 or 1 vectors wide, in which an input is loaded once for up to three pixels. */
#define GE_X86_COLUMN_TILES(T)

/* Those of kernels of one tap, which read bytes in place of elements by ge_x86_input_raw. */
#define GE_X86_RAW_TILES(T)

/* The count of four-byte numbers in a vector. */
#define GE_X86_FLOATS 1

typedef float ge_x86_floats;

static inline GE_X86_INLINE ge_x86_floats ge_x86_floats_at(const float *x) {
    return *x;
}

static inline GE_X86_INLINE void ge_x86_store_floats(float *to, ge_x86_floats x) {
    *to = x;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_load(const int32_t *from) {
    ge_x86_sums sums;
    memcpy(sums.lane, from, sizeof sums.lane);
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_zero(void) {
    const ge_x86_sums zero = {{0}};
    return zero;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_add(ge_x86_sums a, ge_x86_sums b) {
    for (int32_t i = 0; i < 16; i++) {
        a.lane[i] = (int32_t)((uint32_t)a.lane[i] + (uint32_t)b.lane[i]);
    }
    return a;
}

/* Returns the weights of 16 outputs, [steps][16][4] in the image, in the order of ge_x86_dot: [steps][4 /
 * GE_X86_TOGETHER][16][GE_X86_TOGETHER]; they are in `room`, of GE_X86_TAPS_BYTES, unless that order is that of the
 * image. */
static inline GE_X86_INLINE const ge_x86_tap *ge_x86_blocks_of(ge_x86_tap *room, const int8_t *image, int32_t steps) {
    (void)room;
    (void)steps;
    return image;
}

/* Loads GE_X86_TOGETHER weights of each output. */
static inline GE_X86_INLINE ge_x86_weights ge_x86_weights_at(const ge_x86_tap *w) {
    const ge_x86_weights weights = {w};
    return weights;
}

/* Loads GE_X86_TOGETHER inputs, for all outputs. */
static inline GE_X86_INLINE ge_x86_input ge_x86_input_at(const ge_x86_element *x) {
    const ge_x86_input input = {{x[0], x[1], x[2], x[3]}};
    return input;
}

/* sums[o] += sum over i of w[o][i] * x[i]; partial sums may wrap around, as the whole sum fits int32. */
static inline GE_X86_INLINE ge_x86_sums ge_x86_dot(ge_x86_sums sums, ge_x86_weights w, ge_x86_input x) {
    for (int32_t o = 0; o < 16; o++) {
        const int8_t *four = w.at + 4 * o;
        const int32_t sum = four[0] * x.x[0] + four[1] * x.x[1] + four[2] * x.x[2] + four[3] * x.x[3];
        sums.lane[o] = (int32_t)((uint32_t)sums.lane[o] + (uint32_t)sum);
    }
    return sums;
}

/* Does the same with four inputs and with weights in the order of the image. */
static inline GE_X86_INLINE ge_x86_sums ge_x86_dot_four(ge_x86_sums sums, const int8_t *w, const ge_x86_element *x) {
    return ge_x86_dot(sums, ge_x86_weights_at(w), ge_x86_input_at(x));
}

static inline GE_X86_INLINE ge_x86_law ge_x86_law_of(int32_t shift, int32_t zero_point, int32_t lo, int32_t hi) {
    const ge_x86_law law = {shift, zero_point, lo, hi};
    return law;
}

/* Register number i of the sums. */
static inline GE_X86_INLINE ge_x86_register ge_x86_register_of(ge_x86_sums sums, int32_t i) {
    return sums.lane[i];
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_with_register(ge_x86_sums sums, int32_t i, ge_x86_register x) {
    sums.lane[i] = x;
    return sums;
}

/* Loads as many numbers as a register holds; each four of them lie `apart` numbers after the four before. */
static inline GE_X86_INLINE ge_x86_register ge_x86_row_at(const int32_t *from, int32_t apart) {
    (void)apart;
    return *from;
}

/* Returns how the outputs of channels are computed, from the first number of their rows of floats: by ge_x86_nearest
 * where it is at least 0, else in integers, which is always the case here. */
static inline GE_X86_INLINE int32_t ge_x86_form(const float *rows) {
    (void)rows;
    return -1;
}

/* The zero point of outputs, as a number. */
static inline GE_X86_INLINE int32_t ge_x86_zero_point(const ge_x86_law *law) {
    return law->zero_point;
}

/* Outputs before the clamp: (acc * multiplier + 2^(shift-1)) >> shift, plus zero_point. They fit int32. */
static inline GE_X86_INLINE ge_x86_register ge_x86_multiply(ge_x86_register acc, ge_x86_register multiplier,
                                                            const ge_x86_law *law) {
    const int64_t product = (int64_t)acc * multiplier + (((int64_t)1 << law->shift) >> 1);
    return (int32_t)(product >> law->shift) + law->zero_point;
}

/* Does the same in floats, where glowembed/kernels/x86/laws.py proves that the bits are those of a law: acc * row 0,
 * rounded once, halves to even, plus zero_point (an even number is added before the rounding if `even`, a constant).
 * Rows lie `pitch` numbers apart. If `away`, a constant, row 1 moves acc away from zero first. Two rows for each of the
 * `exceptions` follow: a sum, and what is added to its output. This level has no such product. */
static inline GE_X86_INLINE ge_x86_register ge_x86_nearest(ge_x86_register acc, const float *rows, int32_t pitch,
                                                           int32_t apart, int32_t exceptions, int32_t away,
                                                           int32_t even, const ge_x86_law *law) {
    (void)rows;
    (void)pitch;
    (void)apart;
    (void)exceptions;
    (void)away;
    (void)even;
    (void)law;
    return acc;
}

/* ge_requantize_glow without its clamp; its words lie `pitch` numbers apart, and no intermediate result exceeds
 * int32. */
static inline GE_X86_INLINE ge_x86_register ge_x86_shifted(ge_x86_register acc, const int32_t *words, int32_t pitch,
                                                           int32_t apart, const ge_x86_law *law) {
    (void)apart;
    return (((acc >> words[pitch]) * words[0] + ((1 << words[2 * pitch]) >> 1)) >> words[2 * pitch]) + law->zero_point;
}

/* Stores the first `count` outputs, clamped. */
static inline GE_X86_INLINE void ge_x86_store1(int8_t *to, ge_x86_sums y, int32_t count, const ge_x86_law *law) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = (int8_t)ge_clamp(y.lane[i], law->lo, law->hi);
    }
}

/* Stores four times 16 outputs, clamped, of which 4 / `pieces` are contiguous: those of to[0], or of to[0] and
 * to[2]. */
static inline GE_X86_INLINE void ge_x86_store4(int8_t *const to[4], const ge_x86_sums y[4], int32_t pieces,
                                               const ge_x86_law *law) {
    (void)pieces;
    for (int32_t v = 0; v < 4; v++) {
        ge_x86_store1(to[v], y[v], 16, law);
    }
}

/* Writes padding. */
static inline GE_X86_INLINE void ge_x86_fill(ge_x86_element *to, ge_x86_element x, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = x;
    }
}

/* Converts inputs to elements. */
static inline GE_X86_INLINE void ge_x86_expand(ge_x86_element *to, const int8_t *from, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = (uint8_t)(from[i] + 128);
    }
}

/* Loads the first `count` numbers, followed by zeros; nothing beyond them is read. */
static inline GE_X86_INLINE ge_x86_sums ge_x86_widened(const int8_t *x, int32_t count) {
    ge_x86_sums sums = ge_x86_zero();
    for (int32_t i = 0; i < count; i++) {
        sums.lane[i] = x[i];
    }
    return sums;
}

/* ge_requantize_pair without its clamp; `wide`, a constant: multipliers do not fit int16. */
static inline GE_X86_INLINE ge_x86_sums ge_x86_pair(ge_x86_sums a, ge_x86_sums b, int32_t multiplier_a,
                                                    int32_t multiplier_b, int32_t offset, int32_t shift, int32_t wide) {
    (void)wide;
    for (int32_t i = 0; i < 16; i++) {
        a.lane[i] = (a.lane[i] * multiplier_a + b.lane[i] * multiplier_b + offset) >> shift;
    }
    return a;
}

/* (a - zero_a) * (b - zero_b) */
static inline GE_X86_INLINE ge_x86_sums ge_x86_product(ge_x86_sums a, ge_x86_sums b, int32_t zero_a, int32_t zero_b) {
    for (int32_t i = 0; i < 16; i++) {
        a.lane[i] = (a.lane[i] - zero_a) * (b.lane[i] - zero_b);
    }
    return a;
}

/* to[i] = the largest of from[0][i], from[1][i] and so on; `to` may be one of them. `sources` is a constant. */
static inline GE_X86_INLINE void ge_x86_largest(int8_t *to, const int8_t *const *from, int32_t sources, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        int8_t largest = from[0][i];
        for (int32_t k = 1; k < sources; k++) {
            largest = from[k][i] > largest ? from[k][i] : largest;
        }
        to[i] = largest;
    }
}

/* to[i] = table[x[i] + 128]; `to` may be x. */
static inline GE_X86_INLINE void ge_x86_look_up(int8_t *to, const int8_t *x, int32_t count, const int8_t *table) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = table[x[i] + 128];
    }
}

/* (a - zero_a) * factors[0] + (b - zero_b) * factors[1] in floats, moved away from zero by factors[2], rounded with
 * halves to even, plus the zero point; or, if `apart`, a constant, each product is rounded separately with halves up.
 * This level has no vectors of floats. */
static inline GE_X86_INLINE ge_x86_sums ge_x86_float_sum(ge_x86_sums a, ge_x86_sums b, int32_t zero_a, int32_t zero_b,
                                                         const float *factors, int32_t apart, const ge_x86_law *law) {
    (void)b;
    (void)zero_a;
    (void)zero_b;
    (void)factors;
    (void)apart;
    (void)law;
    return a;
}

/* Sixteen channels of a pixel, for the convolutions of conv2d_sixteen_s8_x86.c
 *
 * Number 4 * l + p of sixteen sums has the weights [l][p][4] for the channels 4 * p to 4 * p + 3. */

/* Tiles of pixels that there is code for, by one or two sets of weights for each. */
#define GE_X86_SIXTEEN_TILES(T) T(1, 1) T(1, 2)

typedef struct {
    const ge_x86_element *at;
} ge_x86_sixteen;

typedef ge_x86_sums ge_x86_fours; /* sums on the way */

/* The weights in the type in which ge_x86_fours_dot reads them, a multiple of 64; in `room` where that is not the image itself. */
static inline GE_X86_INLINE const ge_x86_tap *ge_x86_fours_taps(ge_x86_tap *room, const int8_t *image, int32_t count) {
    (void)room;
    (void)count;
    return image;
}

static inline GE_X86_INLINE ge_x86_sixteen ge_x86_sixteen_at(const ge_x86_element *x) {
    const ge_x86_sixteen sixteen = {x};
    return sixteen;
}

static inline GE_X86_INLINE ge_x86_fours ge_x86_fours_zero(void) {
    return ge_x86_zero();
}

static inline GE_X86_INLINE ge_x86_fours ge_x86_fours_dot(ge_x86_fours sums, const ge_x86_tap *w, ge_x86_sixteen x) {
    for (int32_t i = 0; i < 16; i++) {
        for (int32_t k = 0; k < 4; k++) {
            const int32_t product = w[4 * i + k] * x.at[i % 4 * 4 + k];
            sums.lane[i] = (int32_t)((uint32_t)sums.lane[i] + (uint32_t)product);
        }
    }
    return sums;
}

static inline GE_X86_INLINE ge_x86_sums ge_x86_fours_sums(ge_x86_fours sums) {
    return sums;
}

/* The sums of neighbours: numbers 4 * l and 4 * l + 1 are those of a, 4 * l + 2 and 4 * l + 3 those of b. */
static inline GE_X86_INLINE ge_x86_sums ge_x86_neighbours(ge_x86_sums a, ge_x86_sums b) {
    ge_x86_sums sums;
    for (int32_t i = 0; i < 16; i++) {
        const int32_t *const from = (i % 4 < 2 ? a.lane : b.lane) + i / 4 * 4 + i % 2 * 2;
        sums.lane[i] = (int32_t)((uint32_t)from[0] + (uint32_t)from[1]);
    }
    return sums;
}

/* Sixteen outputs, clamped, so that four numbers from each four lie beside each other: 0, 4, 8, 12, then 1, 5, 9, 13 and so on; if
 * there are two parts, a constant, 2, 6, 10, 14 come before 1, 5, 9, 13. */
static inline GE_X86_INLINE void ge_x86_store_turned1(int8_t *to, ge_x86_sums y, int32_t parts, const ge_x86_law *law) {
    for (int32_t i = 0; i < 16; i++) {
        const int32_t place = i / 4, piece = parts == 2 ? place / 2 + place % 2 * 2 : place;
        to[i] = (int8_t)ge_clamp(y.lane[i % 4 * 4 + piece], law->lo, law->hi);
    }
}

/* Does the same for four times sixteen outputs. */
static inline GE_X86_INLINE void ge_x86_store_turned4(int8_t *const to[4], const ge_x86_sums y[4], int32_t parts,
                                                      const ge_x86_law *law) {
    for (int32_t v = 0; v < 4; v++) {
        ge_x86_store_turned1(to[v], y[v], parts, law);
    }
}

/* Stores sixteen outputs of one part, each four of them eight bytes after the four before. */
static inline GE_X86_INLINE void ge_x86_store_apart(int8_t *to, ge_x86_sums y, const ge_x86_law *law) {
    int8_t sixteen[16];
    ge_x86_store_turned1(sixteen, y, 1, law);
    for (int32_t k = 0; k < 4; k++) {
        memcpy(to + 8 * k, sixteen + 4 * k, 4);
    }
}

/* Lanes: the sums of a depthwise convolution, for GE_X86_UNIT channels of a group of 64
 *
 * The constants of a group are in the order of 512-bit vectors whose bytes were interleaved within 16 bytes, which
 * includes the order of the narrower ones: channel 16 * l + 4 * q + j is number 16 * q + 4 * l + j, and has four taps
 * there. */

#define GE_X86_UNIT 16

typedef ge_x86_sums ge_x86_lanes;

typedef struct {
    const ge_x86_element *tap[4];
} ge_x86_quads;

/* Returns the weights in the order in which ge_x86_lanes_dot reads them; they are in `room` unless that is the order of
 * the image. */
static inline GE_X86_INLINE const ge_x86_tap *ge_x86_taps_of(ge_x86_tap *room, const int8_t *image, int32_t count) {
    (void)room;
    (void)count;
    return image;
}

/* Interleaves four taps for each channel of a unit. */
static inline GE_X86_INLINE ge_x86_quads ge_x86_interleave(const ge_x86_element *t0, const ge_x86_element *t1,
                                                           const ge_x86_element *t2, const ge_x86_element *t3) {
    const ge_x86_quads quads = {{t0, t1, t2, t3}};
    return quads;
}

/* Loads the biases of unit number `unit` of the group. */
static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_load(const int32_t *from, int32_t unit) {
    ge_x86_lanes lanes;
    for (int32_t c = 0; c < 16; c++) {
        lanes.lane[c] = from[16 * (c / 4) + 4 * unit + c % 4];
    }
    return lanes;
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_dot(ge_x86_lanes sums, const ge_x86_tap *w, int32_t unit,
                                                          ge_x86_quads x) {
    for (int32_t c = 0; c < 16; c++) {
        const ge_x86_tap *const four = w + 4 * (16 * (c / 4) + 4 * unit + c % 4);
        for (int32_t k = 0; k < 4; k++) {
            sums.lane[c] = (int32_t)((uint32_t)sums.lane[c] + (uint32_t)(four[k] * x.tap[k][c]));
        }
    }
    return sums;
}

/* Returns where the first channel of register i of the lanes of a unit is in a group; its next four channels are
 * GE_X86_APART numbers later. */
#define GE_X86_LANES_REGISTERS 16
#define GE_X86_APART 4

static inline GE_X86_INLINE int32_t ge_x86_lanes_place(int32_t unit, int32_t i) {
    return 16 * (i / 4) + 4 * unit + i % 4;
}

static inline GE_X86_INLINE ge_x86_register ge_x86_lanes_register(ge_x86_lanes lanes, int32_t i) {
    return lanes.lane[i];
}

static inline GE_X86_INLINE ge_x86_lanes ge_x86_lanes_with(ge_x86_lanes lanes, int32_t i, ge_x86_register x) {
    lanes.lane[i] = x;
    return lanes;
}

/* Stores the first `count` outputs of the unit, clamped. */
static inline GE_X86_INLINE void ge_x86_lanes_store(int8_t *to, ge_x86_lanes y, int32_t count, const ge_x86_law *law) {
    ge_x86_store1(to, y, count, law);
}

#endif
