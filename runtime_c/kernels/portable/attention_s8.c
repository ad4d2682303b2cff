/* Attention of int8 queries, keys and values, query by query and head by head, in portable C.
 *
 * glowembed/ops/attention.py defines the arithmetic. This file also makes the kernel for int16.
 */
#include "ge.h"
#include "ge_attention_mask.h"
#include "ge_fixedpoint.h"
#include "ge_params.h"
#include "ge_wide.h"

#define ATTENTION_S8_ELEMENT int8_t /* or int16_t */

/* The number of output elements that one pass over the values sums. */
#define ATTENTION_S8_BLOCK 4

/* One query, and the keys and values of one head that it attends to. */
typedef struct {
    const ATTENTION_S8_ELEMENT *q;
    const ge_rows *k;
    const ge_rows *v;
    const int16_t *mask; /* for this query, or NULL */
    int32_t first;       /* the row of the first key and value */
    int32_t keys;        /* the number that the query attends to */
    int32_t head;
} attention_s8_view;

/* Writes the scores and returns the largest. */
static int32_t attention_s8_scores(const ge_attention_params *p, const attention_s8_view *a, int16_t *scores) {
    int32_t most = -32768;
    for (int32_t j = 0; j < a->keys; j++) {
        const ATTENTION_S8_ELEMENT *key = (const ATTENTION_S8_ELEMENT *)ge_row(a->k, a->first + j) + a->head * p->depth;
        int64_t sum = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            sum += (int64_t)(a->q[i] - p->zero_point_q) * (key[i] - p->zero_point_k);
        }
        int32_t s = ge_requantize_wide(sum, p->score_multiplier, p->score_shift, 0, -8192, 8191);
        s = a->mask != NULL ? s + a->mask[j] : s;
        s = ge_clamp(s, -32768, 32767);
        most = s > most ? s : most;
        scores[j] = (int16_t)s;
    }
    return most;
}

/* Replaces each score by a power of two relative to the largest score, and returns the sum of the powers. */
static uint32_t attention_s8_powers(int16_t *scores, int32_t keys, int32_t most, const uint16_t *table) {
    uint32_t sum = 0;
    for (int32_t j = 0; j < keys; j++) {
        const int32_t distance = most - scores[j];
        const uint16_t e = table[distance < 1023 ? distance : 1023];
        sum += e;
        scores[j] = (int16_t)e;
    }
    return sum;
}

static void attention_s8_values(const ge_attention_params *p, const attention_s8_view *a, const int16_t *e,
                                int32_t multiplier, ATTENTION_S8_ELEMENT *out) {
    for (int32_t c = 0; c < p->width; c += ATTENTION_S8_BLOCK) {
        const int32_t count = p->width - c < ATTENTION_S8_BLOCK ? p->width - c : ATTENTION_S8_BLOCK;
        int64_t sums[ATTENTION_S8_BLOCK] = {0};
        for (int32_t j = 0; j < a->keys; j++) {
            const ATTENTION_S8_ELEMENT *value =
                (const ATTENTION_S8_ELEMENT *)ge_row(a->v, a->first + j) + a->head * p->width + c;
            for (int32_t i = 0; i < count; i++) {
                sums[i] += (int64_t)e[j] * (value[i] - p->zero_point_v);
            }
        }
        for (int32_t i = 0; i < count; i++) {
            out[c + i] = (ATTENTION_S8_ELEMENT)ge_requantize_wide(sums[i], multiplier, p->shift, p->out_zero_point,
                                                                  p->lo, p->hi);
        }
    }
}

static void attention_s8_head(const ge_attention_params *p, const attention_s8_view *a, const uint16_t *table,
                              int16_t *scores, ATTENTION_S8_ELEMENT *out) {
    const int32_t most = attention_s8_scores(p, a, scores);
    const uint32_t sum = most >= -16384 ? attention_s8_powers(scores, a->keys, most, table) : 0u;
    uint32_t multiplier = 0;
    if (sum != 0u) {
        const uint32_t numerator = (uint32_t)p->numerator;
        multiplier = (numerator / sum << p->fine) + ((numerator % sum << p->fine) + sum / 2u) / sum;
    } else {
        memset(scores, 0, (size_t)a->keys * sizeof *scores);
    }
    attention_s8_values(p, a, scores, (int32_t)multiplier, out);
}

static void ge_attention_s8(const ge_attention_params *p, const ge_rows *q, const ge_rows *k, const ge_rows *v,
                            const GE_MASK *mask, const uint16_t *table, const ge_rows *out, int32_t first_row,
                            int32_t last_row, void *scratch) {
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t t = y % p->queries;
        const int32_t seen = t + p->ahead + 1;
        attention_s8_view a = {NULL, k, v, NULL, y / p->queries * p->keys, 0, 0};
        a.keys = seen < 0 ? 0 : (seen < p->keys ? seen : p->keys);
        for (int32_t h = 0; h < p->heads; h++) {
            const int32_t line = (p->mask_heads > 1 ? h * p->mask_queries : 0) + (p->mask_queries > 1 ? t : 0);
            a.q = (const ATTENTION_S8_ELEMENT *)ge_row(q, y) + h * p->depth;
            a.mask = p->mask_heads != 0 ? GE_MASK_OF(mask, y / p->queries) + line * p->keys : NULL;
            a.head = h;
            attention_s8_head(p, &a, table, (int16_t *)scratch, (ATTENTION_S8_ELEMENT *)ge_row(out, y) + h * p->width);
        }
    }
}
