/* Code that the convolutions by columns on Cortex-M4, M7 and M33 share.
 *
 * The windows of a few pixels are expanded once to int16 columns, then multiplied by all weights: 4 channels x 2 pixels
 * at a time. Pixels are taken across row ends, so narrow images are no slower. Where the number of channels is not a
 * multiple of four, the second block of four overlaps the first and computes some of them twice.
 *
 * scratch: [out pointers of the tile][one run of bytes at a border][columns]. */
#ifndef GE_ISA_DSP_COLUMNS_H
#define GE_ISA_DSP_COLUMNS_H

#include "ge.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_law.h"
#include "ge_params.h"

/* A matrix product: ge_dsp_gemm or one with the same job. */
typedef struct {
    void (*run)(const ge_dsp_gemm_job *job);
    int32_t step;  /* bytes of a step in its loop of GE_DSP_GEMM_UNROLL */
    int32_t tile;  /* pixels at a time, at most; even */
    int32_t law;   /* see ge_isa_dsp_law.h */
    int32_t words; /* words of weights in a step */
} ge_dsp_gemm_kind;

#define GE_DSP_COLUMNS_TILE_BYTES 2048
#define GE_DSP_COLUMNS_TILE_MAX 16

/* Layout of the window of one group: `rows * parts` runs of `run` bytes each. */
typedef struct {
    int32_t depth;   /* input channels of the group */
    int32_t parts;   /* runs in a row of the window: 1 where its taps are adjacent */
    int32_t taps;    /* taps in a run */
    int32_t run;     /* bytes in a run */
    int32_t steps;   /* words of a column: pairs of k */
    int32_t tile;    /* pixels, even */
    int8_t **pixels; /* addresses of the outputs of each pixel */
    int8_t *bytes;   /* bytes of a run at a border */
    uint32_t *columns;
} ge_dsp_columns_shape;

static inline ge_dsp_columns_shape ge_dsp_columns_shape_of(const ge_conv2d_params *p, int32_t groups, int32_t most,
                                                           void *scratch) {
    ge_dsp_columns_shape s;
    const int32_t together = groups == 1 && (p->dilation_w == 1 || p->kernel_w == 1);
    s.depth = p->in_c / groups;
    s.parts = together ? 1 : p->kernel_w;
    s.taps = together ? p->kernel_w : 1;
    s.run = s.taps * s.depth;
    s.steps = p->kernel_h * s.parts * ge_dsp_words(s.run);
    s.tile = GE_DSP_COLUMNS_TILE_BYTES / (4 * s.steps) & ~1;
    s.tile = s.tile < 2 ? 2 : (s.tile > most ? most : s.tile);
    s.pixels = (int8_t **)scratch;
    s.bytes = (int8_t *)(s.pixels + most);
    s.columns = (uint32_t *)(void *)(s.bytes + ((s.run + 3) & ~3));
    return s;
}

/* Returns the run from column `ix` of a row on, which extends into padding on either side, as bytes. */
static inline const int8_t *ge_dsp_columns_border(const ge_conv2d_params *p, const ge_dsp_columns_shape *s,
                                                  const int8_t *row, int32_t ix, int32_t c0) {
    const int32_t left = ix >= 0 ? 0 : (-ix < s->taps ? -ix * s->depth : s->run);
    const int32_t reach = (p->in_w - ix) * s->depth;
    const int32_t end = reach < s->run ? reach : s->run;
    const int8_t *const from = row + ix * p->in_c + c0;
    int32_t i = 0;
    for (; i < left; i++) {
        s->bytes[i] = (int8_t)p->in_zero_point;
    }
    for (; i < end; i++) {
        s->bytes[i] = from[i];
    }
    for (; i < s->run; i++) {
        s->bytes[i] = (int8_t)p->in_zero_point;
    }
    return s->bytes;
}

/* Writes a run of padding. A last half-word beyond its elements is multiplied by a weight of 0. */
static inline uint32_t *ge_dsp_columns_padding(const ge_conv2d_params *p, const ge_dsp_columns_shape *s, uint32_t *to) {
    const uint32_t pair = ((uint32_t)p->in_zero_point & 0xFFFFu) | (uint32_t)p->in_zero_point << 16;
    for (uint32_t *const end = to + 2 * ge_dsp_words(s->run); to < end; to += 2) {
        *to = pair;
    }
    return to;
}

#define GE_DSP_COLUMNS_SHORT 12 /* bytes of runs that are expanded word by word */

/* Whether windows of a word in each row, and those that are pixels, have code of their own. */
#ifdef __OPTIMIZE_SIZE__
#define GE_DSP_COLUMNS_SPECIAL 0
#else
#define GE_DSP_COLUMNS_SPECIAL 1
#endif

/* Returns bytes i..i+3 of a row of a window, of which those from `left` up to `end` are in the input. wide: whether
 * four bytes can be read from `left` on and before `end`. */
static GE_NOINLINE uint32_t ge_dsp_columns_word(const int8_t *row, int32_t i, int32_t left, int32_t end, int32_t wide,
                                                uint32_t padding) {
    uint32_t word = padding;
    if (i + 4 <= left || i >= end) {
        return word;
    }
    if (wide && i + 4 <= end) {
        const int32_t before = 8 * (left - i);
        memcpy(&word, row + left, 4);
        return word << before | padding >> (32 - before);
    }
    if (wide && i >= left) {
        const int32_t after = 8 * (i + 4 - end);
        memcpy(&word, row + end - 4, 4);
        return word >> after | padding << (32 - after);
    }
    for (int32_t k = i < left ? left : i; k < i + 4 && k < end; k++) {
        const int32_t shift = 8 * (k - i);
        word = (word & ~(0xFFu << shift)) | (uint32_t)(uint8_t)row[k] << shift;
    }
    return word;
}

/* The rows of a window that are one run of a few words: byte `from` of an input row begins it, and the bytes from
 * `left` up to `end` are in the input. */
typedef struct {
    int32_t from, left, end;
    int32_t wide; /* see ge_dsp_columns_word */
    uint32_t padding;
} ge_dsp_columns_run;

/* The run of the windows in column ix. */
static inline ge_dsp_columns_run ge_dsp_columns_run_at(const ge_conv2d_params *p, const ge_dsp_columns_shape *s,
                                                       int32_t ix) {
    const ge_dsp_columns_run r = {ix * p->in_c, ix >= 0 ? 0 : (-ix < s->taps ? -ix * s->depth : s->run),
                                  ix + s->taps <= p->in_w ? s->run : (p->in_w - ix) * s->depth, p->in_w * p->in_c >= 4,
                                  ((uint32_t)p->in_zero_point & 0xFFu) * 0x01010101u};
    return r;
}

static inline uint32_t *ge_dsp_columns_put(uint32_t word, uint32_t *to) {
    __asm__("sxtb16 %0, %1" : "=r"(to[0]) : "r"(word));
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(to[2]) : "r"(word));
    return to + 4;
}

/* Writes the window from row iy and column ix on where a row of it is one word. */
static GE_NOINLINE void ge_dsp_columns_single(const ge_conv2d_params *p, const ge_dsp_columns_shape *s,
                                              const ge_rows *x, int32_t iy, int32_t ix, uint32_t *to) {
    const ge_dsp_columns_run r = ge_dsp_columns_run_at(p, s, ix);
    const int32_t in_h = p->in_h, dilation = p->dilation_h, step = dilation * x->stride, even = x->slots == NULL;
    /* Where the word is padding on one side at most: the load, shifts and padding that make it. */
    const int32_t left = r.left, right = 4 - r.end, at = left > 0 ? left : -right;
    const int32_t simple = (left + right == 0 || r.wide) && (left == 0 || right == 0) && left < 4 && right < 4;
    const uint32_t padding = r.padding;
    const int32_t up = simple ? 8 * left : 0, down = simple ? 8 * right : 0;
    const uint32_t before = up > 0 ? padding >> (32 - up) : 0u, after = down > 0 ? padding << (32 - down) : 0u;
    const int8_t *row = NULL; /* the row of the tap before, if it is in the input */
    for (int32_t ky = p->kernel_h; ky > 0; ky--) {
        uint32_t word = padding;
        if (iy >= 0 && iy < in_h) {
            row = row != NULL && even ? row + step : (const int8_t *)ge_row(x, iy) + r.from;
            if (simple) {
                memcpy(&word, row + at, 4);
                word = word << up >> down | before | after;
            } else {
                word = ge_dsp_columns_word(row, 0, r.left, r.end, r.wide, padding);
            }
        }
        to = ge_dsp_columns_put(word, to);
        iy += dilation;
    }
}

/* Writes the window from row iy and column ix on, if a row of it is one run of a few words; it has less overhead per
 * word than ge_dsp_expand. */
static GE_NOINLINE void ge_dsp_columns_words(const ge_conv2d_params *p, const ge_dsp_columns_shape *s, const ge_rows *x,
                                             int32_t iy, int32_t ix, uint32_t *to) {
    const ge_dsp_columns_run r = ge_dsp_columns_run_at(p, s, ix);
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int8_t *const row = iy >= 0 && iy < p->in_h ? (const int8_t *)ge_row(x, iy) + r.from : NULL;
        for (int32_t i = 0; i < s->run; i += 4) {
            uint32_t word = r.padding;
            if (row != NULL && i >= r.left && i + 4 <= r.end) {
                memcpy(&word, row + i, 4);
            } else if (row != NULL) {
                word = ge_dsp_columns_word(row, i, r.left, r.end, r.wide, r.padding);
            }
            to = ge_dsp_columns_put(word, to);
        }
        iy += p->dilation_h;
    }
}

/* Writes the window of pixel (y, ox) as one column of int16. */
static inline void ge_dsp_columns_column(const ge_conv2d_params *p, const ge_dsp_columns_shape *s, const ge_rows *x,
                                         int32_t y, int32_t ox, int32_t c0, uint32_t *to) {
    const int32_t left = ox * p->stride_w - p->pad_left;
    int32_t iy = y * p->stride_h - p->pad_top;
    if (s->parts == 1 && s->depth == p->in_c && s->run % 4 == 0 && s->run <= GE_DSP_COLUMNS_SHORT) {
        if (GE_DSP_COLUMNS_SPECIAL && s->run == 4) {
            ge_dsp_columns_single(p, s, x, iy, left, to);
        } else {
            ge_dsp_columns_words(p, s, x, iy, left, to);
        }
        return;
    }
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int8_t *row = iy >= 0 && iy < p->in_h ? (const int8_t *)ge_row(x, iy) : NULL;
        for (int32_t part = 0; part < s->parts; part++) {
            const int32_t ix = left + part * p->dilation_w;
            if (row == NULL) {
                to = ge_dsp_columns_padding(p, s, to);
            } else if (ix >= 0 && ix + s->taps <= p->in_w) {
                to = ge_dsp_expand(row + ix * p->in_c + c0, s->run, to);
            } else {
                to = ge_dsp_expand(ge_dsp_columns_border(p, s, row, ix, c0), s->run, to);
            }
        }
        iy += p->dilation_h;
    }
}

/* Computes fewer than four channels of job->pairs pairs of pixels: each pair is computed into `four`, together with
 * channels that are not used. The second pixel is written first: it may be a copy of a lone last one. */
static inline void ge_dsp_columns_few(const ge_dsp_columns_shape *s, ge_dsp_gemm_job *job, int32_t channels,
                                      const ge_dsp_gemm_kind *kind) {
    int8_t four[8] = {0};
    int8_t *const places[2] = {four, four + 4};
    const int32_t first = job->channel;
    int8_t *const *to = s->pixels;
    job->out = places;
    job->groups = 1;
    job->channel = 0;
    for (int32_t pairs = job->pairs; pairs > 0; pairs--) {
        job->pairs = 1;
        kind->run(job);
        job->x += 2 * s->steps;
        for (int32_t c = 0; c < channels; c++) {
            to[1][first + c] = four[4 + c];
            to[0][first + c] = four[c];
        }
        to += 2;
    }
}

/* Fills in the columns of `count` pixels from `start` on, and the addresses of their outputs; a lone last pixel is
 * entered twice. The shape is computed again: where the compiler knows p, it consists of constants here, which unroll
 * the runs of a window. */
__attribute__((unused, noinline)) static void ge_dsp_columns_gather(const ge_conv2d_params *p, int32_t groups,
                                                                    const ge_rows *x, const ge_rows *out, int32_t start,
                                                                    int32_t count, int32_t c0, int32_t most,
                                                                    void *scratch) {
    const ge_dsp_columns_shape s = ge_dsp_columns_shape_of(p, groups, most, scratch);
    const int32_t points = GE_DSP_COLUMNS_SPECIAL && p->kernel_h * p->kernel_w == 1 && p->pad_top == 0 &&
                           p->pad_left == 0 && (p->out_h - 1) * p->stride_h < p->in_h &&
                           (p->out_w - 1) * p->stride_w < p->in_w;
    int32_t y = start / p->out_w;
    int32_t ox = start - y * p->out_w;
    int8_t *o = NULL;
    const int8_t *from = NULL; /* the pixel where windows are pixels */
    uint32_t *to = s.columns;
    for (int32_t i = 0; i < count; i++) {
        if (i == 0 || ox == p->out_w) {
            y += i == 0 ? 0 : 1;
            ox = i == 0 ? ox : 0;
            o = (int8_t *)ge_row(out, y) + ox * p->out_c;
            from = points ? (const int8_t *)ge_row(x, y * p->stride_h) + ox * p->stride_w * p->in_c + c0 : NULL;
        }
        s.pixels[i] = o;
        s.pixels[i | 1] = o;
        if (points) {
            (void)ge_dsp_expand(from, s.run, to);
            from += p->stride_w * p->in_c;
        } else {
            ge_dsp_columns_column(p, &s, x, y, ox, c0, to);
        }
        to += (i & 1) == 0 ? 1 : 2 * s.steps - 1;
        o += p->out_c;
        ox++;
    }
}

/* Computes the `channels` outputs of group g for `count` pixels whose columns are filled in. Returns the weights of the next
 * group. */
__attribute__((unused, noinline)) static const uint32_t *
ge_dsp_columns_multiply(const ge_conv2d_params *p, const ge_dsp_columns_shape *s, const uint32_t *w, int32_t channels,
                        int32_t count, int32_t g, const ge_dsp_gemm_kind *kind) {
    const int32_t rest = channels & 3;
    const int32_t words = s->steps * kind->words + GE_DSP_LAW_WORDS(kind->law); /* groups of four channels */
    ge_dsp_gemm_job job = {s->columns,
                           s->pixels,
                           (count + 1) / 2,
                           channels / 4,
                           w,
                           (uint32_t)(s->steps * kind->words) * 4u,
                           ge_dsp_gemm_skip(s->steps, kind->step),
                           p->out_zero_point,
                           kind->law == 0 ? p->shift - 24 : 7,
                           g * channels};
    if (channels < 4) {
        ge_dsp_columns_few(s, &job, channels, kind);
        return w + words;
    }
    if (rest != 0) {
        job.groups = 1;
        kind->run(&job);
        job.w += words;
        job.groups = channels / 4;
        job.channel += rest;
    }
    kind->run(&job);
    return job.w + channels / 4 * words;
}

/* Returns the number of pixels of the tile from `start` on. With groups, whose inputs are read one after another, a
 * tile ends with the row: while a row is written, its own inputs may still be needed, so the outputs of the next row
 * must not follow. */
static inline int32_t ge_dsp_columns_count(const ge_conv2d_params *p, const ge_dsp_columns_shape *s, int32_t start,
                                           int32_t end) {
    const int32_t last = p->groups > 1 ? (start / p->out_w + 1) * p->out_w : end;
    return last - start < s->tile ? last - start : s->tile;
}

/* The kernel with one of the matrix products. */
__attribute__((always_inline)) static inline void ge_dsp_columns(const ge_conv2d_params *p, const ge_rows *x,
                                                                 const uint32_t *stream, const ge_rows *out,
                                                                 int32_t first_row, int32_t last_row, void *scratch,
                                                                 const ge_dsp_gemm_kind *kind) {
    const ge_dsp_columns_shape s = ge_dsp_columns_shape_of(p, p->groups, kind->tile, scratch);
    int32_t count = 0;
    for (int32_t start = first_row * p->out_w; start < last_row * p->out_w; start += count) {
        const uint32_t *w = stream;
        count = ge_dsp_columns_count(p, &s, start, last_row * p->out_w);
        for (int32_t g = 0; g < p->groups; g++) {
            ge_dsp_columns_gather(p, p->groups, x, out, start, count, g * s.depth, kind->tile, scratch);
            w = ge_dsp_columns_multiply(p, &s, w, p->out_c / p->groups, count, g, kind);
        }
        if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
            for (int32_t i = 0; i < count; i++) {
                ge_dsp_clamp(s.pixels[i], p->out_c, p->lo, p->hi);
            }
        }
    }
}

#endif
