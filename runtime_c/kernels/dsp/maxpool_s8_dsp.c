/* Largest element of each window of int8 [H, W, C], C at least 4, for Cortex-M4, M7 and M33.
 *
 * SSUB8 and SEL take the larger of four channels at a time. Cost: about 1.3 cycles per element of a window. */
#include "ge.h"
#include "ge_dsp_pool.h"
#include "ge_params.h"

/* Computes four channels over all elements of a window. */
static void maxpool_s8_dsp_four(const ge_pool_params *p, const ge_rows *x, const ge_dsp_window *w, int32_t c,
                                int8_t *o) {
    uint32_t largest = 0x80808080u;
    for (int32_t y = w->top; y < w->bottom; y++) {
        const int8_t *from = (const int8_t *)ge_row(x, y) + w->left * p->channels + c;
        for (int32_t i = w->left; i < w->right; i++) {
            uint32_t word;
            memcpy(&word, from, 4);
            largest = ge_dsp_larger(word, largest);
            from += p->channels;
        }
    }
    memcpy(o, &largest, 4);
}

/* Computes sixteen channels over all elements of a window. */
static void maxpool_s8_dsp_sixteen(const ge_pool_params *p, const ge_rows *x, const ge_dsp_window *w, int32_t c,
                                   int8_t *o) {
    uint32_t a = 0x80808080u, b = a, d = a, e = a;
    for (int32_t y = w->top; y < w->bottom; y++) {
        const int8_t *from = (const int8_t *)ge_row(x, y) + w->left * p->channels + c;
        for (int32_t i = w->left; i < w->right; i++) {
            uint32_t words[4];
            memcpy(words, from, 16);
            a = ge_dsp_larger(words[0], a);
            b = ge_dsp_larger(words[1], b);
            d = ge_dsp_larger(words[2], d);
            e = ge_dsp_larger(words[3], e);
            from += p->channels;
        }
    }
    memcpy(o, &a, 4);
    memcpy(o + 4, &b, 4);
    memcpy(o + 8, &d, 4);
    memcpy(o + 12, &e, 4);
}

static void ge_maxpool_s8_dsp(const ge_pool_params *p, const ge_rows *x, const ge_rows *out, int32_t first_row,
                              int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *const o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const ge_dsp_window w = ge_dsp_window_of(y * p->stride_h - p->pad_top, ox * p->stride_w - p->pad_left,
                                                     p->kernel_h, p->kernel_w, p->in_h, p->in_w);
            int8_t *const to = o + ox * p->channels;
            int32_t c = 0;
            for (; c + 16 <= p->channels; c += 16) {
                maxpool_s8_dsp_sixteen(p, x, &w, c, to + c);
            }
            for (; c + 4 <= p->channels; c += 4) {
                maxpool_s8_dsp_four(p, x, &w, c, to + c);
            }
            if (c < p->channels) { /* the last four, some of them a second time */
                maxpool_s8_dsp_four(p, x, &w, p->channels - 4, to + p->channels - 4);
            }
        }
    }
}
