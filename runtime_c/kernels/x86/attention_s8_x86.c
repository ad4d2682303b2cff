/* Attention of int8 queries, keys and values: one source for every level of x86-64.
 *
 * A call packs the keys and values of each head once, in the blocks of weights of ge_x86_portable.h: keys as outputs of
 * a layer whose inputs are the elements of a query, and elements of values as outputs of one whose inputs are the powers
 * of two. The powers less 128 are int8, so that their elements are the powers themselves. glowembed/ops/attention.py
 * defines the arithmetic.
 *
 * scratch: for the keys, 16 at a time, start values, scores and blocks; the blocks of values; elements; powers.
 */
#include "ge.h"
#include "ge_attention_mask.h"
#include "ge_params.h"
#include "ge_x86_ints.h"

typedef struct {
    const ge_attention_params *p;
    const int32_t *table;
    int32_t *starts;
    int32_t *scores;
    int8_t *keys;
    int8_t *values;
    ge_x86_element *elements;
    int8_t *powers;
    int32_t seen;      /* keys and values that are packed */
    int32_t key_steps; /* blocks of four elements of a key */
    int32_t steps;     /* blocks of four values */
} attention_s8_x86_head;

/* Computes 16 sums of products over `steps` blocks. */
static inline GE_X86_INLINE void attention_s8_x86_sums(const int8_t *blocks, const ge_x86_element *x, int32_t steps,
                                                       const int32_t *start, int32_t *to) {
    ge_x86_sums even = ge_x86_load(start), odd = ge_x86_zero();
    int32_t step = 0;
    for (; step + 2 <= steps; step += 2) {
        even = ge_x86_dot_four(even, blocks + 64 * step, x + 4 * step);
        odd = ge_x86_dot_four(odd, blocks + 64 * step + 64, x + 4 * step + 4);
    }
    if (step < steps) {
        even = ge_x86_dot_four(even, blocks + 64 * step, x + 4 * step);
    }
    even = ge_x86_add(even, odd);
    memcpy(to, &even, sizeof even);
}

/* Packs the keys of head `head` from row `first` on, and sets the start value of each: its sum times -(128 + zero point
 * of the queries). */
static GE_X86_FN void attention_s8_x86_pack_keys(const attention_s8_x86_head *h, const ge_rows *k, int32_t first,
                                                 int32_t head) {
    static const int32_t zeros[16] = {0};
    const ge_attention_params *const p = h->p;
    const int32_t rounded = (h->seen + 15) / 16 * 16;
    memset(h->keys, 0, (size_t)rounded * (size_t)h->key_steps * 4);
    for (int32_t j = 0; j < h->seen; j++) {
        const int8_t *const key = (const int8_t *)ge_row(k, first + j) + head * p->depth;
        int8_t *const to = h->keys + j / 16 * 64 * h->key_steps + j % 16 * 4;
        int32_t i = 0;
        for (; i + 4 <= p->depth; i += 4) {
            memcpy(to + 16 * i, key + i, 4);
        }
        for (int32_t rest = i; rest < p->depth; rest++) {
            to[16 * i + rest - i] = key[rest];
        }
    }
    ge_x86_fill(h->elements, 1, 4 * h->key_steps);
    for (int32_t j = 0; j < rounded; j += 16) {
        attention_s8_x86_sums(h->keys + 4 * j * h->key_steps, h->elements, h->key_steps, zeros, h->starts + j);
        for (int32_t i = 0; i < 16; i++) {
            h->starts[j + i] *= -(128 + p->zero_point_q);
        }
    }
}

static GE_X86_FN void attention_s8_x86_pack_values(const attention_s8_x86_head *h, const ge_rows *v, int32_t first,
                                                   int32_t head) {
    const ge_x86_ints byte = ge_x86_ints_all(255), top = ge_x86_ints_all(1 << 24);
    for (int32_t j = 0; j < 4 * h->steps; j += 4) {
        ge_x86_ints four[4];
        for (int32_t c = 0; c < h->p->width; c += GE_X86_FLOATS) {
            for (int32_t i = 0; i < 4; i++) {
                four[i] = ge_x86_ints_all(0);
                if (j + i < h->seen) {
                    const int8_t *const value = (const int8_t *)ge_row(v, first + j + i) + head * h->p->width + c;
                    four[i] = ge_x86_some_elements_at(value, h->p->width - c, 1);
                }
            }
            ge_x86_store_ints(h->values + c / 16 * 64 * h->steps + 16 * j + c % 16 * 4,
                              (four[0] & byte) | (four[1] & byte) << 8 | (four[2] & byte) << 16 | four[3] * top);
        }
    }
}

/* Writes the scores of a query, and returns the largest. Keys behind `seen` get the lowest score. */
static inline GE_X86_INLINE int32_t attention_s8_x86_scores(const attention_s8_x86_head *h, const int8_t *q,
                                                            const int16_t *mask, int32_t seen) {
    const ge_attention_params *const p = h->p;
    const ge_x86_wide_law law = ge_x86_wide_law_of(p->score_shift, 0, -8192, 8191);
    const ge_x86_ints multiplier = ge_x86_ints_all(p->score_multiplier), forbidden = ge_x86_ints_all(-32768);
    int32_t sum = -p->depth * p->zero_point_q, largest = -32768, most[16];
    for (int32_t i = 0; p->zero_point_k != 0 && i < p->depth; i++) {
        sum += q[i];
    }
    const ge_x86_ints more = ge_x86_ints_all(-p->zero_point_k * sum);
    ge_x86_ints all = forbidden;
    ge_x86_expand(h->elements, q, p->depth);
    for (int32_t j = 0; j < seen; j += 16) {
        attention_s8_x86_sums(h->keys + 4 * j * h->key_steps, h->elements, h->key_steps, h->starts + j, h->scores + j);
    }
    for (int32_t j = 0; j < seen; j += GE_X86_FLOATS) {
        ge_x86_ints s = ge_x86_scaled(ge_x86_ints_at(h->scores + j) + more, multiplier, &law);
        if (mask != NULL) {
            s = s + ge_x86_some_elements_at(mask + j, seen - j, 2);
            s = ge_x86_least(ge_x86_most(s, forbidden), ge_x86_ints_all(32767));
        }
        ge_x86_store_ints(h->scores + j, s);
        for (int32_t i = seen; i < j + GE_X86_FLOATS; i++) {
            h->scores[i] = -32768;
        }
        all = ge_x86_most(all, ge_x86_ints_at(h->scores + j));
    }
    ge_x86_store_ints(most, all);
    for (int32_t i = 0; i < GE_X86_FLOATS; i++) {
        largest = most[i] > largest ? most[i] : largest;
    }
    return largest;
}

/* Writes the power of each score relative to the largest one as elements, with zeros up to a multiple of four; returns
 * their sum. */
static inline GE_X86_INLINE uint32_t attention_s8_x86_powers(const attention_s8_x86_head *h, int32_t most,
                                                             int32_t seen) {
    const ge_x86_ints top = ge_x86_ints_all(most), last = ge_x86_ints_all(1023), half = ge_x86_ints_all(128);
    ge_x86_ints sums = ge_x86_ints_all(0);
    int32_t parts[16];
    uint32_t sum = 0;
    for (int32_t j = 0; j < seen; j += GE_X86_FLOATS) {
        const ge_x86_ints e = ge_x86_looked_up(h->table, ge_x86_least(top - ge_x86_ints_at(h->scores + j), last));
        sums = sums + e;
        ge_x86_store_octets(h->powers + j, e - half);
    }
    memset(h->powers + seen, -128, 4);
    ge_x86_expand(h->elements, h->powers, (seen + 3) / 4 * 4);
    ge_x86_store_ints(parts, sums);
    for (int32_t i = 0; i < GE_X86_FLOATS; i++) {
        sum += (uint32_t)parts[i];
    }
    return sum;
}

static inline GE_X86_INLINE uint32_t attention_s8_x86_quotient(const ge_attention_params *p, uint32_t sum) {
    const uint32_t numerator = (uint32_t)p->numerator;
    return (numerator / sum << p->fine) + ((numerator % sum << p->fine) + sum / 2u) / sum;
}

static GE_X86_FN void attention_s8_x86_query(const attention_s8_x86_head *h, const int8_t *q, const int16_t *mask,
                                             int32_t seen, int8_t *out) {
    static const int32_t zeros[16] = {0};
    const ge_attention_params *const p = h->p;
    const ge_x86_wide_law law = ge_x86_wide_law_of(p->shift, p->out_zero_point, p->lo, p->hi);
    const int32_t most = attention_s8_x86_scores(h, q, mask, seen);
    const uint32_t sum = most >= -16384 ? attention_s8_x86_powers(h, most, seen) : 0u;
    const int32_t steps = sum != 0u ? (seen + 3) / 4 : 0;
    const ge_x86_ints multiplier = ge_x86_ints_all(sum != 0u ? (int32_t)attention_s8_x86_quotient(p, sum) : 0);
    const ge_x86_ints more = ge_x86_ints_all(-p->zero_point_v * (int32_t)sum);
    for (int32_t c = 0; c < p->width; c += 16) {
        int32_t sums[16];
        attention_s8_x86_sums(h->values + 4 * c * h->steps, h->elements, steps, zeros, sums);
        for (int32_t i = 0; i < 16 && c + i < p->width; i += GE_X86_FLOATS) {
            const ge_x86_ints y = ge_x86_scaled(ge_x86_ints_at(sums + i) + more, multiplier, &law);
            ge_x86_store_some_elements(out + c + i, y, p->width - c - i, 1);
        }
    }
}

static inline GE_X86_INLINE int32_t attention_s8_x86_seen(const ge_attention_params *p, int32_t query) {
    const int32_t seen = query + p->ahead + 1;
    return seen < 0 ? 0 : (seen < p->keys ? seen : p->keys);
}

/* Computes head `head` of the queries in rows first..last-1, which belong to one sequence. */
static GE_X86_FN void attention_s8_x86_queries(attention_s8_x86_head *h, const ge_rows *q, const ge_rows *k,
                                               const ge_rows *v, const int16_t *mask, const ge_rows *out, int32_t first,
                                               int32_t last, int32_t head) {
    const ge_attention_params *const p = h->p;
    const int32_t key = first / p->queries * p->keys;
    h->seen = attention_s8_x86_seen(p, (last - 1) % p->queries);
    h->steps = (h->seen + 3) / 4;
    attention_s8_x86_pack_keys(h, k, key, head);
    attention_s8_x86_pack_values(h, v, key, head);
    for (int32_t y = first; y < last; y++) {
        const int32_t t = y % p->queries;
        const int32_t line = (p->mask_heads > 1 ? head * p->mask_queries : 0) + (p->mask_queries > 1 ? t : 0);
        attention_s8_x86_query(h, (const int8_t *)ge_row(q, y) + head * p->depth,
                               p->mask_heads != 0 ? mask + line * p->keys : NULL, attention_s8_x86_seen(p, t),
                               (int8_t *)ge_row(out, y) + head * p->width);
    }
}

static GE_X86_FN void ge_attention_s8_x86(const ge_attention_params *p, const ge_rows *q, const ge_rows *k,
                                          const ge_rows *v, const GE_MASK *mask, const int32_t *table,
                                          const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t rounded = (p->keys + 15) / 16 * 16, longest = p->depth > rounded ? p->depth : rounded;
    attention_s8_x86_head h = {p, table, (int32_t *)scratch, NULL, NULL, NULL, NULL, NULL, 0, (p->depth + 3) / 4, 0};
    h.scores = h.starts + rounded;
    h.keys = (int8_t *)(h.scores + rounded);
    h.values = h.keys + 4 * rounded * h.key_steps;
    h.elements = (ge_x86_element *)(void *)(h.values + (p->width + 15) / 16 * 16 * rounded);
    h.powers = (int8_t *)(h.elements + (longest + 15) / 16 * 16);
    for (int32_t y = first_row; y < last_row;) {
        const int32_t end = (y / p->queries + 1) * p->queries, last = end < last_row ? end : last_row;
        for (int32_t head = 0; head < p->heads; head++) {
            attention_s8_x86_queries(&h, q, k, v, GE_MASK_OF(mask, y / p->queries), out, y, last, head);
        }
        y = last;
    }
}
