/* Attention of int8 queries, keys and values for Cortex-M4, M7 and M33: two queries at a time.
 *
 * Keys and values of a head are packed once per call (ge_isa_dsp_matmul.h). Two queries times the keys give their
 * scores, which are replaced in place by powers of two; these times the values give the outputs. Only the scores of one
 * pair of queries exist at a time. For keys that no query of a pair sees, neither scores nor powers are computed.
 * docs/adding-an-op.md states the cycles. */
#include "ge.h"
#include "ge_attention_mask.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp_matmul.h"
#include "ge_params.h"

#define ATTENTION_S8_DSP_FORBIDDEN (-32768)

/* The parts of the scratch, at its beginning. */
typedef struct {
    uint32_t *keys;   /* packed keys, four at a time */
    uint32_t *values; /* packed columns of values, four at a time */
    uint32_t *query;  /* two queries */
    uint32_t *powers; /* scores of two queries, later their powers: a word of the first and one of the second query
                       * alternate */
    int32_t *sums;    /* sums of two queries, where they are computed in chunks */
    int32_t depth_steps;
    int32_t key_steps;
    int32_t depth_chunk; /* elements of a query that are multiplied at a time */
    int32_t key_chunk;   /* keys at a time */
} attention_s8_dsp_work;

#define ATTENTION_S8_DSP_STATE 40 /* bytes for it */

/* Two queries, and which keys they see. */
typedef struct {
    const int8_t *q[2];
    const int16_t *mask[2];
    int8_t *out[2];
    int32_t seen[2]; /* number of keys; the second query sees at least as many */
} attention_s8_dsp_pair;

static const attention_s8_dsp_work *attention_s8_dsp_layout(const ge_attention_params *p, void *scratch) {
    attention_s8_dsp_work *const w = (attention_s8_dsp_work *)scratch;
    w->depth_steps = ge_dsp_matmul_steps(p->depth);
    w->key_steps = ge_dsp_matmul_steps(p->keys);
    w->depth_chunk = ge_dsp_matmul_chunk(ge_dsp_matmul_reach(p->zero_point_q), p->zero_point_k);
    w->key_chunk = ge_dsp_matmul_chunk(255, p->zero_point_v);
    w->keys = (uint32_t *)scratch + ATTENTION_S8_DSP_STATE / 4;
    w->values = w->keys + w->key_steps * w->depth_steps;
    w->query = w->values + ge_dsp_matmul_steps(p->width) * w->key_steps;
    w->powers = w->query + 2 * w->depth_steps;
    w->sums = (int32_t *)w->powers + 2 * w->key_steps;
    return w;
}

static void attention_s8_dsp_pack_keys(const ge_attention_params *p, const attention_s8_dsp_work *w, const ge_rows *k,
                                       int32_t first, int32_t keys, int32_t head) {
    for (int32_t j = 0; j < keys; j += 2) {
        const int32_t next = j + 1 < keys ? j + 1 : j;
        const int8_t *const a = (const int8_t *)ge_row(k, first + j) + head * p->depth;
        const int8_t *const b = (const int8_t *)ge_row(k, first + next) + head * p->depth;
        ge_dsp_matmul_pack_two(a, b, p->depth, w->keys + (j >> 2) * 2 * w->depth_steps + (j >> 1 & 1));
    }
}

/* Packs two rows of values as one step of each group of four columns. */
static void attention_s8_dsp_pack_values(const ge_attention_params *p, const attention_s8_dsp_work *w, const ge_rows *v,
                                         int32_t first, int32_t keys, int32_t head) {
    const int32_t groups = (p->width + GE_DSP_MATMUL_FOUR - 1) / GE_DSP_MATMUL_FOUR;
    const size_t bytes = p->width < GE_DSP_MATMUL_FOUR ? (size_t)p->width : GE_DSP_MATMUL_FOUR;
    for (int32_t j = 0; j < keys; j += 2) {
        const int32_t next = j + 1 < keys ? j + 1 : j;
        const int8_t *const a = (const int8_t *)ge_row(v, first + j) + head * p->width;
        const int8_t *const b = (const int8_t *)ge_row(v, first + next) + head * p->width;
        uint32_t *to = w->values + j;
        for (int32_t g = 0; g < groups; g++) {
            const int32_t column = ge_dsp_matmul_first(p->width, g);
            uint32_t x = 0, y = 0, low, high;
            if (bytes == GE_DSP_MATMUL_FOUR) {
                memcpy(&x, a + column, GE_DSP_MATMUL_FOUR);
                memcpy(&y, b + column, GE_DSP_MATMUL_FOUR);
            } else {
                memcpy(&x, a, bytes);
                memcpy(&y, b, bytes);
            }
            __asm__("pkhbt %0, %2, %3, lsl #16\n    pkhtb %1, %3, %2, asr #16"
                    : "=&r"(low), "=&r"(high)
                    : "r"(x), "r"(y));
            to[0] = low ^ 0x00800080u;
            to[1] = high ^ 0x00800080u;
            to += 2 * w->key_steps;
        }
    }
}

/* Packs elements `from` to `to` of two queries. */
static inline void attention_s8_dsp_queries(const ge_attention_params *p, const attention_s8_dsp_work *w,
                                            const attention_s8_dsp_pair *pair, int32_t from, int32_t to,
                                            ge_dsp_matmul_job *job) {
    int32_t sums[2];
    ge_dsp_matmul_pack_rows(pair->q[0] + from, pair->q[1] + from, to - from, p->zero_point_q, w->query, sums);
    ge_dsp_matmul_start(job, 0, sums[0], p->zero_point_k);
    ge_dsp_matmul_start(job, 1, sums[1], p->zero_point_k);
    ge_dsp_matmul_rows(job, w->query, ge_dsp_matmul_steps(to - from), w->depth_steps);
}

/* Computes the scores of deep queries in chunks: `count` numbers of four keys, for both queries. */
static void attention_s8_dsp_scores_in_chunks(const ge_attention_params *p, const attention_s8_dsp_work *w,
                                              const attention_s8_dsp_pair *pair, int32_t count,
                                              ge_dsp_matmul_job *job) {
    memset(w->sums, 0, (size_t)count * sizeof *w->sums);
    job->out[0] = (int8_t *)w->sums;
    job->out_end = (int8_t *)(w->sums + count);
    for (int32_t from = 0; from < p->depth; from += w->depth_chunk) {
        const int32_t to = from + w->depth_chunk < p->depth ? from + w->depth_chunk : p->depth;
        attention_s8_dsp_queries(p, w, pair, from, to, job);
        ge_dsp_matmul_sums(job, w->keys + from);
    }
    int16_t *const scores = (int16_t *)w->powers;
    for (int32_t i = 0; i < count; i++) {
        const int32_t score = (int32_t)(((int64_t)w->sums[i] * p->score_multiplier + (1LL << 31)) >> 32);
        scores[(i & ~3) | (i << 1 & 2) | (i >> 1 & 1)] = (int16_t)ge_clamp(score, -8192, 8191);
    }
}

/* Computes the scores of two queries, in fours; after the keys that a query sees, scores are those of forbidden
 * keys. */
static void attention_s8_dsp_scores(const ge_attention_params *p, const attention_s8_dsp_work *w,
                                    const attention_s8_dsp_pair *pair, int32_t steps) {
    ge_dsp_matmul_job job;
    ge_dsp_matmul_law(&job, p->score_multiplier, 0);
    if (p->depth <= w->depth_chunk) {
        attention_s8_dsp_queries(p, w, pair, 0, p->depth, &job);
        job.out[0] = job.out[1] = (int8_t *)w->powers;
        job.out_end = (int8_t *)(w->powers + 2 * steps);
        ge_dsp_matmul_scores(&job, w->keys);
    } else {
        attention_s8_dsp_scores_in_chunks(p, w, pair, 4 * steps, &job);
    }
}

static void attention_s8_dsp_forbid(const attention_s8_dsp_work *w, const attention_s8_dsp_pair *pair, int32_t steps) {
    int16_t *const scores = (int16_t *)w->powers;
    for (int32_t r = 0; r < 2; r++) {
        for (int32_t j = pair->seen[r]; j < 2 * steps; j++) {
            scores[(j >> 1) * 4 + r * 2 + (j & 1)] = ATTENTION_S8_DSP_FORBIDDEN;
        }
    }
}

/* Adds the masks to the scores of `keys` keys. Cost: three cycles per key. */
static void attention_s8_dsp_mask(const attention_s8_dsp_work *w, const attention_s8_dsp_pair *pair, int32_t keys) {
    uint32_t *s = w->powers;
    const int16_t *x = pair->mask[0], *y = pair->mask[1];
    int32_t n = keys >> 1;
    uint32_t a, b, c, d;
    if (n > 0) {
        __asm__ volatile("    .balign 4\n"
                         "1:\n"
                         "    ldr.w %[b], [%[s], #4]\n"
                         "    ldr.w %[a], [%[s]]\n"
                         "    ldr.w %[c], [%[x]], #4\n"
                         "    ldr.w %[d], [%[y]], #4\n"
                         "    qadd16 %[a], %[a], %[c]\n"
                         "    qadd16 %[b], %[b], %[d]\n"
                         "    str.w %[b], [%[s], #4]\n"
                         "    str.w %[a], [%[s]], #8\n"
                         "    subs.w %[n], %[n], #1\n"
                         "    bne.w 1b\n"
                         : [s] "+&r"(s), [x] "+&r"(x), [y] "+&r"(y), [n] "+&r"(n), [a] "=&r"(a), [b] "=&r"(b),
                           [c] "=&r"(c), [d] "=&r"(d)
                         :
                         : "cc", "memory");
    }
    if ((keys & 1) != 0) {
        int16_t *const last = (int16_t *)s;
        last[0] = (int16_t)ge_clamp(last[0] + x[0], INT16_MIN, INT16_MAX);
        last[2] = (int16_t)ge_clamp(last[2] + y[0], INT16_MIN, INT16_MAX);
    }
}

/* Computes the largest scores of both queries, each twice in a word; steps: even. Cost: two cycles per score. */
static void attention_s8_dsp_most(const uint32_t *scores, int32_t steps, uint32_t *most) {
    uint32_t x = scores[0], y = scores[1], a, b, c, d, t;
    __asm__ volatile("    .balign 4\n"
                     "1:\n"
                     "    ldr.w %[b], [%[s], #4]\n"
                     "    ldr.w %[c], [%[s], #8]\n"
                     "    ldr.w %[d], [%[s], #12]\n"
                     "    ldr.w %[a], [%[s]], #16\n"
                     "    ssub16 %[t], %[a], %[x]\n"
                     "    sel %[x], %[a], %[x]\n"
                     "    ssub16 %[t], %[b], %[y]\n"
                     "    sel %[y], %[b], %[y]\n"
                     "    ssub16 %[t], %[c], %[x]\n"
                     "    sel %[x], %[c], %[x]\n"
                     "    ssub16 %[t], %[d], %[y]\n"
                     "    sel %[y], %[d], %[y]\n"
                     "    subs.w %[n], %[n], #2\n"
                     "    bne.w 1b\n"
                     "    ror %[a], %[x], #16\n"
                     "    ssub16 %[t], %[a], %[x]\n"
                     "    sel %[x], %[a], %[x]\n"
                     "    ror %[b], %[y], #16\n"
                     "    ssub16 %[t], %[b], %[y]\n"
                     "    sel %[y], %[b], %[y]\n"
                     : [s] "+&r"(scores), [n] "+&r"(steps), [x] "+&r"(x), [y] "+&r"(y), [a] "=&r"(a), [b] "=&r"(b),
                       [c] "=&r"(c), [d] "=&r"(d), [t] "=&r"(t)
                     :
                     : "cc", "memory");
    most[0] = x;
    most[1] = y;
}

/* clang-format off */

/* Replaces a word of scores of each query by powers. */
#define ATTENTION_S8_DSP_POWERS \
    "    ldr.w %[b], [%[s], #4]\n" \
    "    ldr.w %[a], [%[s]]\n" \
    "    qsub16 %[b], %[y], %[b]\n" \
    "    qsub16 %[a], %[x], %[a]\n" \
    "    usat16 %[b], #10, %[b]\n" \
    "    usat16 %[a], #10, %[a]\n" \
    "    uxth %[d], %[b]\n" \
    "    lsr %[b], %[b], #16\n" \
    "    uxth %[c], %[a]\n" \
    "    lsr %[a], %[a], #16\n" \
    "    ldrh.w %[d], [%[table], %[d], lsl #1]\n" \
    "    ldrh.w %[b], [%[table], %[b], lsl #1]\n" \
    "    ldrh.w %[c], [%[table], %[c], lsl #1]\n" \
    "    ldrh.w %[a], [%[table], %[a], lsl #1]\n" \
    "    orr %[b], %[d], %[b], lsl #16\n" \
    "    orr %[a], %[c], %[a], lsl #16\n" \
    "    str.w %[b], [%[s], #4]\n" \
    "    str.w %[a], [%[s]], #8\n" \
    "    smlad %[u], %[b], %[ones], %[u]\n" \
    "    smlad %[t], %[a], %[ones], %[t]\n"

/* clang-format on */

/* Replaces scores by powers of two relative to the largest ones and sums both; steps: even. Cost: 5.9 cycles per
 * score. */
static void attention_s8_dsp_powers(uint32_t *scores, int32_t steps, const uint16_t *table, const uint32_t *most,
                                    int32_t *sums) {
    const uint32_t ones = 0x00010001u;
    uint32_t x = most[0], y = most[1], a, b, c, d;
    int32_t t = 0, u = 0;
    __asm__ volatile("    .balign 4\n"
                     "1:\n" ATTENTION_S8_DSP_POWERS ATTENTION_S8_DSP_POWERS "    subs.w %[n], %[n], #2\n"
                     "    bne.w 1b\n"
                     : [s] "+&r"(scores), [n] "+&r"(steps), [t] "+&r"(t), [u] "+&r"(u), [a] "=&r"(a), [b] "=&r"(b),
                       [c] "=&r"(c), [d] "=&r"(d)
                     : [x] "r"(x), [y] "r"(y), [table] "r"(table), [ones] "r"(ones)
                     : "cc", "memory");
    sums[0] = t;
    sums[1] = u;
}

/* Returns the multiplier of an output; 0 where all keys are forbidden. */
static int32_t attention_s8_dsp_multiplier(const ge_attention_params *p, uint32_t most, uint32_t sum) {
    if ((int16_t)most < -16384) {
        return 0;
    }
    const uint32_t numerator = (uint32_t)p->numerator, quotient = numerator / sum;
    return (int32_t)((quotient << p->fine) + (((numerator - quotient * sum) << p->fine) + sum / 2u) / sum);
}

/* Computes powers and outputs of so many keys that their sums could exceed 2^23, in chunks. */
static void attention_s8_dsp_outputs_in_chunks(const ge_attention_params *p, const attention_s8_dsp_work *w,
                                               const attention_s8_dsp_pair *pair, int32_t steps, const uint16_t *table,
                                               const uint32_t *most) {
    const int32_t count = 4 * ge_dsp_matmul_steps(p->width);
    ge_dsp_matmul_job job;
    uint32_t total[2] = {0, 0};
    memset(w->sums, 0, (size_t)count * sizeof *w->sums);
    job.out[0] = (int8_t *)w->sums;
    job.out_end = (int8_t *)(w->sums + count);
    for (int32_t from = 0; from < 2 * steps; from += w->key_chunk) {
        const int32_t to = from + w->key_chunk < 2 * steps ? from + w->key_chunk : 2 * steps;
        int32_t sums[2];
        attention_s8_dsp_powers(w->powers + from, (to - from) / 2, table, most, sums);
        for (int32_t r = 0; r < 2; r++) {
            ge_dsp_matmul_start(&job, r, sums[r], p->zero_point_v);
            total[r] += (uint32_t)sums[r];
        }
        ge_dsp_matmul_rows(&job, w->powers + from, (to - from) / 2, w->key_steps);
        ge_dsp_matmul_sums(&job, w->values + from);
    }
    ge_dsp_matmul_law(&job, 0, p->out_zero_point);
    for (int32_t r = 0; r < 2; r++) {
        job.multiplier[r] = attention_s8_dsp_multiplier(p, most[r], total[r]);
    }
    ge_dsp_matmul_finish(&job, w->sums, p->width, pair->out);
}

static void attention_s8_dsp_outputs(const ge_attention_params *p, const attention_s8_dsp_work *w,
                                     const attention_s8_dsp_pair *pair, int32_t steps, const uint16_t *table,
                                     const uint32_t *most) {
    ge_dsp_matmul_job job;
    int32_t sums[2];
    attention_s8_dsp_powers(w->powers, steps, table, most, sums);
    ge_dsp_matmul_law(&job, 0, p->out_zero_point);
    for (int32_t r = 0; r < 2; r++) {
        ge_dsp_matmul_start(&job, r, sums[r], p->zero_point_v);
        job.multiplier[r] = attention_s8_dsp_multiplier(p, most[r], (uint32_t)sums[r]);
    }
    ge_dsp_matmul_rows(&job, w->powers, steps, w->key_steps);
    ge_dsp_matmul_columns(&job, w->values, p->width, w->key_steps, pair->out, ge_dsp_matmul_values);
}

static void attention_s8_dsp_two(const ge_attention_params *p, const attention_s8_dsp_work *w,
                                 const attention_s8_dsp_pair *pair, const uint16_t *table) {
    const int32_t keys = pair->seen[1] > 0 ? pair->seen[1] : 1, steps = ge_dsp_matmul_steps(keys);
    uint32_t most[2];
    attention_s8_dsp_scores(p, w, pair, steps);
    if (pair->mask[0] != NULL) {
        attention_s8_dsp_mask(w, pair, keys);
    }
    attention_s8_dsp_forbid(w, pair, steps);
    attention_s8_dsp_most(w->powers, steps, most);
    if (2 * steps <= w->key_chunk) {
        attention_s8_dsp_outputs(p, w, pair, steps, table, most);
    } else {
        attention_s8_dsp_outputs_in_chunks(p, w, pair, steps, table, most);
    }
    if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
        ge_dsp_clamp(pair->out[0], p->width, p->lo, p->hi);
        ge_dsp_clamp(pair->out[1], p->width, p->lo, p->hi);
    }
}

static int32_t attention_s8_dsp_seen(const ge_attention_params *p, int32_t t) {
    return ge_clamp(t + p->ahead + 1, 0, p->keys);
}

static void ge_attention_s8_dsp(const ge_attention_params *p, const ge_rows *q, const ge_rows *k, const ge_rows *v,
                                const GE_MASK *mask, const uint16_t *table, const ge_rows *out, int32_t first_row,
                                int32_t last_row, void *scratch) {
    const attention_s8_dsp_work *const w = attention_s8_dsp_layout(p, scratch);
    for (int32_t y = first_row; y < last_row;) {
        const int32_t batch = y / p->queries, end = (batch + 1) * p->queries;
        const int32_t stop = end < last_row ? end : last_row;
        const int32_t seen = attention_s8_dsp_seen(p, (stop - 1) % p->queries), keys = seen > 0 ? seen : 1;
        for (int32_t h = 0; h < p->heads; h++) {
            attention_s8_dsp_pack_keys(p, w, k, batch * p->keys, keys, h);
            attention_s8_dsp_pack_values(p, w, v, batch * p->keys, keys, h);
            for (int32_t first = y; first < stop; first += 2) {
                attention_s8_dsp_pair pair;
                for (int32_t r = 0; r < 2; r++) {
                    const int32_t row = first + r < stop ? first + r : first, t = row % p->queries;
                    const int32_t line = (p->mask_heads > 1 ? h * p->mask_queries : 0) + (p->mask_queries > 1 ? t : 0);
                    pair.q[r] = (const int8_t *)ge_row(q, row) + h * p->depth;
                    pair.mask[r] = p->mask_heads != 0 ? GE_MASK_OF(mask, batch) + line * p->keys : NULL;
                    pair.out[r] = (int8_t *)ge_row(out, row) + h * p->width;
                    pair.seen[r] = attention_s8_dsp_seen(p, t);
                }
                attention_s8_dsp_two(p, w, &pair, table);
            }
        }
        y = stop;
    }
}
