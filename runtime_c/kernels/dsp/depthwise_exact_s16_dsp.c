/* Depthwise convolution of int16 [H, W, C] with weights whose sums need 64 bits, any window, for Cortex-M4, M7 and M33: two
 * channels of one output at a time.
 *
 * Inputs have no zero point, so taps in padding add nothing. For each two channels the stream holds their biases (64
 * bits each), their multipliers, and a word of weights for each tap; where the number of channels is odd, the first two
 * overlap the second two. The taps inside the input are listed in scratch. Cost: 12 cycles for the 2 products of a
 * tap. */
#include "ge.h"
#include "ge_isa_dsp_exact.h"
#include "ge_params.h"
#include "ge_thumb_pool.h"

/* A tap inside the input. */
typedef struct {
    const int16_t *x;
    int32_t weights; /* its number */
} depthwise_exact_s16_dsp_tap;

static int64_t depthwise_exact_s16_dsp_bias(const uint32_t *words) {
    return (int64_t)((uint64_t)words[1] << 32 | words[0]);
}

/* Computes two channels; the inputs of the second lie `next` elements after those of the first. */
static inline void depthwise_exact_s16_dsp_two(const depthwise_exact_s16_dsp_tap *tap, int32_t taps,
                                               const uint32_t *stream, int32_t c, int32_t next,
                                               const ge_dsp_exact_law *law, int16_t *o) {
    int64_t s = depthwise_exact_s16_dsp_bias(stream), t = depthwise_exact_s16_dsp_bias(stream + 2);
    for (const depthwise_exact_s16_dsp_tap *const end = tap + taps; tap < end; tap++) {
        const int16_t *const from = tap->x + c;
        const uint32_t weights = stream[6 + tap->weights];
        if (next == 1) {
            uint32_t word;
            memcpy(&word, from, 4);
            __asm__("smlalbb %Q0, %R0, %1, %2" : "+r"(s) : "r"(word), "r"(weights));
            __asm__("smlaltt %Q0, %R0, %1, %2" : "+r"(t) : "r"(word), "r"(weights));
        } else {
            __asm__("smlalbb %Q0, %R0, %1, %2" : "+r"(s) : "r"(from[0]), "r"(weights));
            __asm__("smlalbt %Q0, %R0, %1, %2" : "+r"(t) : "r"(from[next]), "r"(weights));
        }
    }
    o[1] = ge_dsp_exact_output(law, (uint32_t)(uint64_t)t, (int32_t)(t >> 32), (int32_t)stream[5]);
    o[0] = ge_dsp_exact_output(law, (uint32_t)(uint64_t)s, (int32_t)(s >> 32), (int32_t)stream[4]);
}

/* Computes all channels of an output; each: outputs per input channel. size: words of two channels. */
static GE_NOINLINE void depthwise_exact_s16_dsp_pixel(const depthwise_exact_s16_dsp_tap *tap, int32_t taps,
                                                      const uint32_t *stream, int32_t size, int32_t channels,
                                                      int32_t each, const ge_dsp_exact_law *law, int16_t *o) {
    int32_t first = 0;
    if ((channels & 1) != 0) {
        int16_t two[2];
        depthwise_exact_s16_dsp_two(tap, taps, stream, 0, channels > 1 && each == 1, law, two);
        o[0] = two[0];
        stream += size;
        first = 1;
    }
    for (; first < channels; first += 2) {
        if (each == 1) {
            depthwise_exact_s16_dsp_two(tap, taps, stream, first, 1, law, o + first);
        } else {
            const int32_t c = first / each;
            depthwise_exact_s16_dsp_two(tap, taps, stream, c, (first + 1) / each - c, law, o + first);
        }
        stream += size;
    }
}

static void ge_depthwise_exact_s16_dsp(const ge_conv2d_s16_params *p, const ge_rows *x, const uint32_t *stream,
                                       const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const ge_dsp_exact_law law = GE_DSP_EXACT_LAW(p);
    depthwise_exact_s16_dsp_tap *const list = (depthwise_exact_s16_dsp_tap *)scratch;
    const int32_t size = 6 + p->kernel_h * p->kernel_w;
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t top = y * p->stride_h - p->pad_top;
        const ge_thumb_span rows = ge_thumb_span_of(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        int16_t *o = (int16_t *)ge_row(out, y);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            const int32_t left = ox * p->stride_w - p->pad_left;
            const ge_thumb_span columns = ge_thumb_span_of(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            int32_t taps = 0;
            for (int32_t ky = rows.first; ky < rows.last; ky++) {
                const int16_t *const row = (const int16_t *)ge_row(x, top + ky * p->dilation_h) + left * p->in_c;
                for (int32_t kx = columns.first; kx < columns.last; kx++) {
                    list[taps].x = row + kx * p->dilation_w * p->in_c;
                    list[taps].weights = ky * p->kernel_w + kx;
                    taps++;
                }
            }
            depthwise_exact_s16_dsp_pixel(list, taps, stream, size, p->out_c, p->out_c / p->in_c, &law, o);
            o += p->out_c;
        }
    }
}
