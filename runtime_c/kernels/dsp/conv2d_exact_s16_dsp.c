/* Convolution of int16 [H, W, C] with weights whose sums need 64 bits, any window, stride, dilation and group, for
 * Cortex-M4, M7 and M33. ge_isa_dsp_exact.h has the loop; two windows at a time are columns in scratch. 1x1, 64 to 64
 * channels on 25x5: 1.46 cycles per product. */
#include "ge.h"
#include "ge_dsp_wide_window.h"
#include "ge_isa_dsp_exact.h"
#include "ge_params.h"

/* State of one call, in scratch. */
typedef struct {
    const ge_conv2d_s16_params *p;
    const ge_rows *x;
    const uint32_t *stream; /* of the group */
    uint32_t *columns;      /* of two windows, interleaved */
    int32_t depth;          /* input channels of a group */
    int32_t channels;       /* output channels of a group */
    int32_t steps;          /* pairs of k */
    ge_dsp_exact_law law;
} conv2d_exact_s16_dsp_call;

#define CONV2D_EXACT_S16_DSP_STATE 48 /* bytes for it */

static void conv2d_exact_s16_dsp_pixels(const conv2d_exact_s16_dsp_call *c, int16_t *first, int16_t *second) {
    int16_t *const places[2] = {first, second};
    ge_dsp_exact_pixels(c->stream, c->columns, c->steps, c->channels, &c->law, places);
}

/* Computes group g of rows first..last-1, whose windows are pixels. A lone pixel is computed twice. */
static void conv2d_exact_s16_dsp_points(const conv2d_exact_s16_dsp_call *c, const ge_rows *out, int32_t first,
                                        int32_t last, int32_t g) {
    const ge_conv2d_s16_params *const p = c->p;
    const int32_t in_step = p->stride_w * p->in_c, out_step = p->out_c, words = c->depth / 2;
    const int16_t *even = NULL; /* the first pixel of a pair */
    int16_t *place = NULL;
    for (int32_t y = first; y < last; y++) {
        const int16_t *from = (const int16_t *)ge_row(c->x, y * p->stride_h) + g * c->depth;
        int16_t *o = (int16_t *)ge_row(out, y) + g * c->channels;
        for (int32_t pixels = p->out_w; pixels > 0; pixels--) {
            if (even == NULL) {
                even = from;
                place = o;
            } else {
                ge_dsp_wide_points(even, from, words, c->columns);
                conv2d_exact_s16_dsp_pixels(c, place, o);
                even = NULL;
            }
            from += in_step;
            o += out_step;
        }
    }
    if (even != NULL) {
        ge_dsp_wide_points(even, even, words, c->columns);
        conv2d_exact_s16_dsp_pixels(c, place, place);
    }
}

/* Computes group g of rows first..last-1. A lone pixel is computed together with an old window. */
static void conv2d_exact_s16_dsp_windows(const conv2d_exact_s16_dsp_call *c, const ge_rows *out, int32_t first,
                                         int32_t last, int32_t g) {
    const ge_conv2d_s16_params *const p = c->p;
    int16_t *place = NULL; /* of the first pixel of a pair */
    for (int32_t y = first; y < last; y++) {
        int16_t *o = (int16_t *)ge_row(out, y) + g * c->channels;
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            ge_dsp_wide_window(p, c->x, y, ox, g * c->depth, c->depth, c->columns + (place == NULL ? 0 : 1));
            if (place == NULL) {
                place = o;
            } else {
                conv2d_exact_s16_dsp_pixels(c, place, o);
                place = NULL;
            }
            o += p->out_c;
        }
    }
    if (place != NULL) {
        conv2d_exact_s16_dsp_pixels(c, place, place);
    }
}

static void ge_conv2d_exact_s16_dsp(const ge_conv2d_s16_params *p, const ge_rows *x, const uint32_t *stream,
                                    const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const ge_dsp_exact_law law = GE_DSP_EXACT_LAW(p);
    conv2d_exact_s16_dsp_call *const c = (conv2d_exact_s16_dsp_call *)scratch;
    c->p = p;
    c->x = x;
    c->stream = stream;
    c->columns = (uint32_t *)scratch + CONV2D_EXACT_S16_DSP_STATE / 4;
    c->depth = p->in_c / p->groups;
    c->channels = p->out_c / p->groups;
    c->steps = (p->kernel_h * p->kernel_w * c->depth + 1) / 2;
    c->law = law;
    memset(c->columns, 0, (size_t)c->steps * 8);
    for (int32_t g = 0; g < p->groups; g++) {
        if (ge_dsp_wide_are_points(p)) {
            conv2d_exact_s16_dsp_points(c, out, first_row, last_row, g);
        } else {
            conv2d_exact_s16_dsp_windows(c, out, first_row, last_row, g);
        }
        c->stream += (c->channels + 1) / 2 * (6 + 2 * c->steps);
    }
}
