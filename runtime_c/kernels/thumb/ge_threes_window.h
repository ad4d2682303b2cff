/* Convolution by ge_threes.h. The window of a pixel is copied into one piece and then multiplied by the weights of all
 * channels, so the inner loops neither divide nor test for borders. */
#ifndef GE_THREES_WINDOW_H
#define GE_THREES_WINDOW_H

#include "ge.h"
#include "ge_params.h"
#include "ge_threes.h"

/* Writes padding in place of `count` inputs; count >= 1. */
__attribute__((noinline)) static void ge_threes_fill(int8_t *to, int32_t value, int32_t count) {
    const int8_t *const end = to + count;
    do {
        *(volatile int8_t *)to++ =
            (int8_t)(uint8_t)((uint32_t)value ^ GE_THREES_FLIP); /* volatile, so that no memset is called */
    } while (to < end);
}

/* The bytes in one row of a window without dilation: padding on the left, inputs, padding on the right. */
typedef struct {
    int32_t head;
    int32_t body;
    int32_t tail;
} ge_threes_span;

static inline ge_threes_span ge_threes_columns(const ge_conv2d_params *p, int32_t left) {
    const int32_t over = left + p->kernel_w - p->in_w;
    const int32_t head = left >= 0 ? 0 : (-left < p->kernel_w ? -left : p->kernel_w);
    const int32_t tail = over <= 0 ? 0 : (over < p->kernel_w - head ? over : p->kernel_w - head);
    const ge_threes_span span = {head * p->in_c, (p->kernel_w - head - tail) * p->in_c, tail * p->in_c};
    return span;
}

/* Copies one row of a window with horizontal dilation. The window begins at column `left` of `row`. */
static inline void ge_threes_apart(const ge_conv2d_params *p, const int8_t *row, int32_t left, int8_t *to) {
    for (int32_t kx = 0; kx < p->kernel_w; kx++) {
        const int32_t column = left + kx * p->dilation_w;
        if (column >= 0 && column < p->in_w) {
            ge_threes_take(to, row + column * p->in_c, p->in_c);
        } else {
            ge_threes_fill(to, p->in_zero_point, p->in_c);
        }
        to += p->in_c;
    }
}

/* Copies one row of a window without horizontal dilation. */
static inline void ge_threes_beside(const ge_conv2d_params *p, const ge_threes_span *span, const int8_t *row,
                                    int8_t *to) {
    if (span->head > 0) {
        ge_threes_fill(to, p->in_zero_point, span->head);
    }
    ge_threes_take(to + span->head, row, span->body);
    if (span->tail > 0) {
        ge_threes_fill(to + span->head + span->body, p->in_zero_point, span->tail);
    }
}

/* Copies the window of pixel (y, ox) into one piece. It is a function of its own because the loop over pixels would
 * otherwise spill to the stack. */
__attribute__((noinline)) static void ge_threes_window(const ge_conv2d_params *p, const ge_rows *x, int32_t y,
                                                       int32_t ox, int8_t *to) {
    const int32_t left = ox * p->stride_w - p->pad_left;
    const int32_t run = p->kernel_w * p->in_c;
    const ge_threes_span span = ge_threes_columns(p, left);
    const int32_t offset = left * p->in_c + span.head;
    int8_t *const end = to + p->kernel_h * run;
    int32_t iy = y * p->stride_h - p->pad_top;
    for (; iy < 0 && to < end; iy += p->dilation_h) {
        ge_threes_fill(to, p->in_zero_point, run);
        to += run;
    }
    for (; iy < p->in_h && to < end; iy += p->dilation_h) {
        const int8_t *const row = (const int8_t *)ge_row(x, iy);
        if (p->dilation_w > 1) {
            ge_threes_apart(p, row, left, to);
        } else if (span.body < run) {
            ge_threes_beside(p, &span, row + offset, to);
        } else {
            ge_threes_take(to, row + offset, run);
        }
        to += run;
    }
    if (to < end) {
        ge_threes_fill(to, p->in_zero_point, (int32_t)(end - to));
    }
}

/* The state of a convolution. It lies in scratch, because the stack is short; the window follows it. */
typedef union {
    ge_threes_block block;
    uint32_t words[48];
} ge_threes_state;

/* Computes rows first_row..last_row-1 of a convolution with one group. */
static inline void ge_threes_conv2d(const ge_conv2d_params *p, const ge_rows *x, const uint32_t *words,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t in_place = GE_THREES_IN_PLACE && p->kernel_h * p->kernel_w == 1 && p->in_c % 8 == 0 &&
                             p->pad_top == 0 && p->pad_left == 0 && (p->out_w - 1) * p->stride_w < p->in_w &&
                             (p->out_h - 1) * p->stride_h < p->in_h;
    ge_threes_block *const block = &((ge_threes_state *)(void *)scratch)->block;
    int8_t *const copy = (int8_t *)scratch + sizeof(ge_threes_state);
    ge_threes_open(block, words, p->out_c, p->lo, p->hi);
    for (int32_t y = first_row; y < last_row; y++) {
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int8_t *window = copy;
            if (in_place) {
                window = (const int8_t *)ge_row(x, y * p->stride_h) + ox * p->stride_w * p->in_c;
            } else {
                ge_threes_window(p, x, y, ox, copy);
            }
            ge_threes_pixel(block, window, o);
            o += p->out_c;
        }
        ge_threes_clamp(p->lo, p->hi, (int8_t *)ge_row(out, y), p->out_w * p->out_c);
    }
}

#endif
