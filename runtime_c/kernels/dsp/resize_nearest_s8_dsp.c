/* Nearest elements of int8 [H, W, C], C at least 4, for Cortex-M4, M7 and M33: pixels are copied in words.
 *
 * Where outputs 2i and 2i + 1 both read column i, a word is loaded once and stored for both, and for the next output
 * row too if that reads the same input row. Other repeated rows are copied. docs/adding-an-op.md states the cycles. */
#include "ge.h"
#include "ge_isa_dsp.h"
#include "ge_params.h"

typedef struct {
    const int8_t *from; /* input column 0 */
    int8_t *to, *next;  /* output column 0, in the row and, if that is also written, in the next one */
    const int32_t *column_at;
    int32_t columns; /* of the output */
    int32_t channels;
} resize_nearest_s8_dsp_job;

/* Up to four words in registers. */
typedef struct {
    uint32_t a, b, c, d;
} resize_nearest_s8_dsp_four;

__attribute__((always_inline)) static inline resize_nearest_s8_dsp_four resize_nearest_s8_dsp_load(const int8_t *x,
                                                                                                   int32_t words) {
    resize_nearest_s8_dsp_four w = {0u, 0u, 0u, 0u};
    memcpy(&w.a, x, 4);
    if (words > 1) {
        memcpy(&w.b, x + 4, 4);
    }
    if (words > 2) {
        memcpy(&w.c, x + 8, 4);
        memcpy(&w.d, x + 12, 4);
    }
    return w;
}

__attribute__((always_inline)) static inline void resize_nearest_s8_dsp_store(int8_t *o, int32_t words,
                                                                              resize_nearest_s8_dsp_four w) {
    memcpy(o, &w.a, 4);
    if (words > 1) {
        memcpy(o + 4, &w.b, 4);
    }
    if (words > 2) {
        memcpy(o + 8, &w.c, 4);
        memcpy(o + 12, &w.d, 4);
    }
}

/* Copies `words` words of every pixel of one output row, by the table. */
__attribute__((always_inline)) static inline void resize_nearest_s8_dsp_table(const resize_nearest_s8_dsp_job *j,
                                                                              int32_t offset, int32_t words) {
    const int8_t *const from = j->from + offset;
    const int32_t *at = j->column_at, *const end = at + j->columns;
    int8_t *o = j->to + offset;
    for (; at != end; o += j->channels) {
        const resize_nearest_s8_dsp_four w = resize_nearest_s8_dsp_load(from + *at++, words);
        resize_nearest_s8_dsp_store(o, words, w);
    }
}

/* Copies `words` words of every input pixel, twice in one output row or in two. */
__attribute__((always_inline)) static inline void
resize_nearest_s8_dsp_twice(const resize_nearest_s8_dsp_job *j, int32_t offset, int32_t words, int32_t rows) {
    const int32_t step = j->channels;
    const int8_t *x = j->from + offset, *const end = x + (j->columns >> 1) * step;
    int8_t *a = j->to + offset, *b = a + step, *c = j->next + offset, *d = c + step;
    for (; x != end; x += step) {
        const resize_nearest_s8_dsp_four w = resize_nearest_s8_dsp_load(x, words);
        resize_nearest_s8_dsp_store(a, words, w);
        resize_nearest_s8_dsp_store(b, words, w);
        a += 2 * step;
        b += 2 * step;
        if (rows == 2) {
            resize_nearest_s8_dsp_store(c, words, w);
            resize_nearest_s8_dsp_store(d, words, w);
            c += 2 * step;
            d += 2 * step;
        }
    }
}

__attribute__((always_inline)) static inline void
resize_nearest_s8_dsp_words(const resize_nearest_s8_dsp_job *j, int32_t offset, int32_t words, int32_t rows) {
    if (rows == 0) {
        resize_nearest_s8_dsp_table(j, offset, words);
    } else {
        resize_nearest_s8_dsp_twice(j, offset, words, rows);
    }
}

/* Copies all channels, 16, 8 or 4 at a time; the last ones may include some that were already copied. rows: 0 for
 * copying by the table. */
__attribute__((always_inline)) static inline void resize_nearest_s8_dsp_all(const resize_nearest_s8_dsp_job *j,
                                                                            int32_t rows) {
    int32_t done = 0;
    for (; done + 16 <= j->channels; done += 16) {
        resize_nearest_s8_dsp_words(j, done, 4, rows);
    }
    if (done + 8 <= j->channels) {
        resize_nearest_s8_dsp_words(j, done, 2, rows);
        done += 8;
    }
    for (; done < j->channels; done += 4) {
        resize_nearest_s8_dsp_words(j, done + 4 <= j->channels ? done : j->channels - 4, 1, rows);
    }
}

/* Returns whether outputs 2i and 2i + 1 read column i. */
static int32_t resize_nearest_s8_dsp_doubles(const ge_resize_params *p, const int32_t *column_at) {
    int32_t i = 0;
    while (i < p->out_w && column_at[i] == (i >> 1) * p->channels) {
        i++;
    }
    return i == p->out_w && p->out_w == 2 * p->in_w;
}

static void ge_resize_nearest_s8_dsp(const ge_resize_params *p, const ge_rows *x, const int32_t *row_at,
                                     const int16_t *row_weight, const int32_t *column_at, const int16_t *column_weight,
                                     const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t doubles = resize_nearest_s8_dsp_doubles(p, column_at);
    (void)row_weight;
    (void)column_weight;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        resize_nearest_s8_dsp_job job = {(const int8_t *)ge_row(x, row_at[y]), o, o, column_at, p->out_w, p->channels};
        if (y > first_row && row_at[y] == row_at[y - 1]) {
            ge_dsp_copy(o, (const int8_t *)ge_row(out, y - 1), p->out_w * p->channels);
        } else if (!doubles) {
            resize_nearest_s8_dsp_all(&job, 0);
        } else if (y + 1 < last_row && row_at[y] == row_at[y + 1]) {
            y++;
            job.next = (int8_t *)ge_row(out, y);
            resize_nearest_s8_dsp_all(&job, 2);
        } else {
            resize_nearest_s8_dsp_all(&job, 1);
        }
    }
}
