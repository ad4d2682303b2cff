/* Attention of int8 queries, keys and values for Cortex-M4, M7 and M33: three queries at a time.
 *
 * Keys and values of a head are packed once a call as pairs of int16, two keys or two columns next to each other. The scores of
 * three queries, their powers of two, and the sums of values are each a product of three rows and two columns; only those of
 * three queries exist at a time. Cycles are in docs/adding-an-op.md. */
#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp_pairs.h"
#include "ge_params.h"

#define ATTENTION_S8_DSP_ROWS 3

/* What lies behind the keys that are seen is multiplied by 0.
 * Where the parts of the scratch begin, and how many turns of ge_dsp_three_by_two a key and a column take. */
typedef struct {
    int32_t *keys;   /* [pairs of keys][words of a key][2] */
    int32_t *values; /* [pairs of columns][words of a column][2] */
    int32_t *query;  /* [words of a key][3], and room for 6 sums */
    int32_t *powers; /* [words of a column][3], and room for 6 sums */
    int16_t *scores; /* [3][keys, even] */
    int32_t depth_turns;
    int32_t key_turns;
    int32_t stride; /* of the scores */
} attention_s8_dsp_work;

static attention_s8_dsp_work attention_s8_dsp_layout(const ge_attention_params *p, void *scratch) {
    attention_s8_dsp_work w;
    w.depth_turns = (p->depth + 7) / 8;
    w.key_turns = (p->keys + 7) / 8;
    w.stride = (p->keys + 1) / 2 * 2;
    w.keys = (int32_t *)scratch;
    w.values = w.keys + w.stride * w.depth_turns * GE_DSP_PAIRS_TURN;
    w.query = w.values + (p->width + 1) / 2 * 2 * w.key_turns * GE_DSP_PAIRS_TURN;
    w.powers = w.query + ATTENTION_S8_DSP_ROWS * w.depth_turns * GE_DSP_PAIRS_TURN + GE_DSP_PAIRS_SUMS;
    w.scores = (int16_t *)(w.powers + ATTENTION_S8_DSP_ROWS * w.key_turns * GE_DSP_PAIRS_TURN + GE_DSP_PAIRS_SUMS);
    return w;
}

static void attention_s8_dsp_pack_keys(const ge_attention_params *p, const attention_s8_dsp_work *w, const ge_rows *k,
                                       int32_t first, int32_t keys, int32_t head) {
    const int32_t words = w->depth_turns * GE_DSP_PAIRS_TURN;
    for (int32_t j = 0; j < (keys + 1) / 2 * 2; j++) {
        const int32_t row = j < keys ? j : keys - 1;
        const int8_t *key = (const int8_t *)ge_row(k, first + row) + head * p->depth;
        ge_dsp_pack(key, p->depth, p->zero_point_k, w->keys + (j >> 1) * 2 * words + (j & 1), 2);
    }
}

/* Two keys of a column in a word: PKHBT and PKHTB of two loaded words, for four columns. */
static void attention_s8_dsp_pack_four(const int8_t *a, const int8_t *b, int32_t zero, int32_t *out, int32_t column) {
    int32_t x, y;
    memcpy(&x, a, 4);
    memcpy(&y, b, 4);
    const uint32_t even_x = (uint32_t)ge_dsp_even(x, zero), even_y = (uint32_t)ge_dsp_even(y, zero);
    const uint32_t odd_x = (uint32_t)ge_dsp_odd(x, zero), odd_y = (uint32_t)ge_dsp_odd(y, zero);
    out[0] = (int32_t)((even_x & 0xFFFFu) | even_y << 16);
    out[1] = (int32_t)((odd_x & 0xFFFFu) | odd_y << 16);
    out[column] = (int32_t)(even_x >> 16 | (even_y & 0xFFFF0000u));
    out[column + 1] = (int32_t)(odd_x >> 16 | (odd_y & 0xFFFF0000u));
}

static void attention_s8_dsp_pack_values(const ge_attention_params *p, const attention_s8_dsp_work *w, const ge_rows *v,
                                         int32_t first, int32_t keys, int32_t head) {
    const int32_t words = w->key_turns * GE_DSP_PAIRS_TURN;
    const int32_t zero = ge_dsp_both(p->zero_point_v);
    for (int32_t j = 0; j < keys; j += 2) {
        const int32_t row = j, next = j + 1 < keys ? j + 1 : j;
        const int8_t *a = (const int8_t *)ge_row(v, first + row) + head * p->width;
        const int8_t *b = (const int8_t *)ge_row(v, first + next) + head * p->width;
        int32_t *out = w->values + j;
        int32_t c = 0;
        for (; c + 4 <= p->width; c += 4) {
            attention_s8_dsp_pack_four(a + c, b + c, zero, out, 2 * words);
            out += 4 * words;
        }
        for (; c < p->width; c++) {
            const int32_t low = a[c] - p->zero_point_v, high = b[c] - p->zero_point_v;
            out[(c & 1) + (c & 2) * words] = (int32_t)((uint32_t)high << 16 | ((uint32_t)low & 0xFFFFu));
        }
    }
}

/* The scores of three queries with the first `keys` keys. */
static void attention_s8_dsp_scores(const ge_attention_params *p, const attention_s8_dsp_work *w, int32_t keys) {
    const int32_t words = w->depth_turns * GE_DSP_PAIRS_TURN, m = p->score_multiplier;
    int16_t *s = w->scores;
    for (int32_t j = 0; j < keys; j += 2) {
        const int32_t *const sums = ge_dsp_three_by_two(w->query, w->keys + j * words, w->depth_turns);
        for (int32_t r = 0; r < ATTENTION_S8_DSP_ROWS; r++) {
            const int32_t a = ge_dsp_ssat14(ge_dsp_smmulr(sums[2 * r], m));
            const int32_t b = ge_dsp_ssat14(ge_dsp_smmulr(sums[2 * r + 1], m));
            const int32_t pair = (int32_t)((uint32_t)b << 16 | ((uint32_t)a & 0xFFFFu));
            memcpy(s + r * w->stride + j, &pair, 4);
        }
    }
}

/* The powers of one query, as every third word; returns the multiplier of its sums. */
static uint32_t attention_s8_dsp_powers(const ge_attention_params *p, const attention_s8_dsp_work *w, int16_t *s,
                                        int32_t keys, const int16_t *mask, const uint16_t *table, int32_t *powers) {
    int32_t most = -32768;
    if (mask != NULL) {
        for (int32_t j = 0; j < keys; j++) {
            const int32_t sum = s[j] + mask[j];
            s[j] = (int16_t)(sum < -32768 ? -32768 : sum);
            most = s[j] > most ? s[j] : most;
        }
    } else {
        for (int32_t j = 0; j < keys; j++) {
            most = s[j] > most ? s[j] : most;
        }
    }
    const int32_t all = 2 * w->key_turns * GE_DSP_PAIRS_TURN, seen = most < -16384 ? 0 : keys;
    uint32_t sum = 0;
    int32_t j = 0;
    for (; j + 2 <= seen; j += 2) {
        const int32_t d = most - s[j], f = most - s[j + 1];
        const uint32_t a = table[d < 1023 ? d : 1023], b = table[f < 1023 ? f : 1023];
        sum += a + b;
        powers[j / 2 * ATTENTION_S8_DSP_ROWS] = (int32_t)(a | b << 16);
    }
    for (; j < all; j += 2) {
        const int32_t d = j < seen ? most - s[j] : 1023;
        const uint32_t a = table[d < 1023 ? d : 1023];
        sum += a;
        powers[j / 2 * ATTENTION_S8_DSP_ROWS] = (int32_t)a;
    }
    if (seen == 0) {
        return 0;
    }
    const uint32_t numerator = (uint32_t)p->numerator, quotient = numerator / sum;
    return (quotient << p->fine) + (((numerator - quotient * sum) << p->fine) + sum / 2u) / sum;
}

/* The outputs of `count` of three queries. */
static void attention_s8_dsp_outputs(const ge_attention_params *p, const attention_s8_dsp_work *w, int32_t count,
                                     const uint32_t *multipliers, int8_t *const *out) {
    const int32_t words = w->key_turns * GE_DSP_PAIRS_TURN, zero = p->out_zero_point;
    for (int32_t c = 0; c < p->width; c += 2) {
        const int32_t *const sums = ge_dsp_three_by_two(w->powers, w->values + c * words, w->key_turns);
        for (int32_t r = 0; r < count; r++) {
            const int32_t m = (int32_t)multipliers[r];
            int8_t *const o = out[r] + c;
            o[0] = ge_dsp_ssat8(ge_dsp_smmulr(sums[2 * r], m) + zero);
            if (c + 1 < p->width) {
                o[1] = ge_dsp_ssat8(ge_dsp_smmulr(sums[2 * r + 1], m) + zero);
            }
        }
    }
}

static int32_t attention_s8_dsp_seen(const ge_attention_params *p, int32_t t) {
    return ge_clamp(t + p->ahead + 1, 0, p->keys);
}

/* `count` queries from row y on, in one head; the last one stands for those that are missing. */
static void attention_s8_dsp_three(const ge_attention_params *p, const attention_s8_dsp_work *w, const ge_rows *q,
                                   const uint16_t *table, const int16_t *mask, const ge_rows *rows, int32_t y,
                                   int32_t count, int32_t head) {
    int8_t *out[ATTENTION_S8_DSP_ROWS];
    uint32_t multipliers[ATTENTION_S8_DSP_ROWS];
    const int32_t first = y % p->queries;
    for (int32_t r = 0; r < ATTENTION_S8_DSP_ROWS; r++) {
        const int32_t row = y + (r < count ? r : count - 1);
        ge_dsp_pack((const int8_t *)ge_row(q, row) + head * p->depth, p->depth, p->zero_point_q, w->query + r,
                    ATTENTION_S8_DSP_ROWS);
        out[r] = (int8_t *)ge_row(rows, row) + head * p->width;
    }
    attention_s8_dsp_scores(p, w, attention_s8_dsp_seen(p, first + count - 1));
    for (int32_t r = 0; r < ATTENTION_S8_DSP_ROWS; r++) {
        const int32_t t = first + (r < count ? r : count - 1);
        const int32_t line = (p->mask_heads > 1 ? head * p->mask_queries : 0) + (p->mask_queries > 1 ? t : 0);
        multipliers[r] =
            attention_s8_dsp_powers(p, w, w->scores + r * w->stride, r < count ? attention_s8_dsp_seen(p, t) : 0,
                                    p->mask_heads != 0 ? mask + line * p->keys : NULL, table, w->powers + r);
    }
    attention_s8_dsp_outputs(p, w, count, multipliers, out);
}

static void ge_attention_s8_dsp(const ge_attention_params *p, const ge_rows *q, const ge_rows *k, const ge_rows *v,
                                const uint16_t *table, const int16_t *mask, const ge_rows *out, int32_t first_row,
                                int32_t last_row, void *scratch) {
    const attention_s8_dsp_work w = attention_s8_dsp_layout(p, scratch);
    for (int32_t y = first_row; y < last_row;) {
        const int32_t batch = y / p->queries, end = (batch + 1) * p->queries;
        const int32_t stop = end < last_row ? end : last_row;
        const int32_t keys = attention_s8_dsp_seen(p, (stop - 1) % p->queries);
        for (int32_t h = 0; h < p->heads; h++) {
            attention_s8_dsp_pack_keys(p, &w, k, batch * p->keys, keys, h);
            attention_s8_dsp_pack_values(p, &w, v, batch * p->keys, keys, h);
            for (int32_t r = y; r < stop; r += ATTENTION_S8_DSP_ROWS) {
                const int32_t count = stop - r < ATTENTION_S8_DSP_ROWS ? stop - r : ATTENTION_S8_DSP_ROWS;
                attention_s8_dsp_three(p, &w, q, table, mask, out, r, count, h);
            }
        }
        y = stop;
    }
}
