/* Depthwise convolution of float32 with any window: Helium, four channels of five neighbouring outputs of a row at a
 * time.
 *
 * The input rows of a window lie in scratch with their padding, in slots that they take in turn. For each four
 * channels, the columns that are congruent modulo the stride are contiguous, so a tap of the five outputs is one piece
 * of 80 bytes. Padding is a zero, and rows of outputs that read tiny numbers are computed one by one (ge_mve_float.h
 * explains why).
 *
 *   q0-q4  sums   q5  weights, then the lower limit   q6 q7  inputs and products, then the upper limit
 *   r0  taps   r1  the address of the first output's window   r2  the stream   r3  inputs, then outputs
 */
#include "ge.h"
#include "ge_mve_float.h"
#include "ge_params.h"

typedef struct {
    const int32_t *taps; /* 0: bytes from the address of the first output's window */
    const float *x;      /* 4: that address */
    const float *stream; /* 8: for each four channels: biases, then the weights of each tap */
    float *out;          /* 12 */
    int32_t step;        /* 16: bytes from output to output */
    int32_t count;       /* 20: taps */
    float lo, hi;        /* 24, 28 */
} depthwise_f32_mve_job;

/* clang-format off */

__attribute__((noinline)) static void depthwise_f32_mve_five(const depthwise_f32_mve_job *job) {
    __asm__ volatile(
        "mov r12, %[job]\n"
        "ldrd r0, r1, [r12]\n"
        "ldr r2, [r12, #8]\n"
        "ldr r3, [r12, #20]\n"
        "vldrw.32 q0, [r2], #16\n"
        "vmov q1, q0\n"
        "vmov q2, q0\n"
        "vmov q3, q0\n"
        "vmov q4, q0\n"
        "dls lr, r3\n"
        "1:\n"
        "ldr r3, [r0], #4\n"
        "vldrw.32 q5, [r2], #16\n"
        "add r3, r3, r1\n"
        "vldrw.32 q6, [r3]\n"
        "vldrw.32 q7, [r3, #16]\n"
        "vmul.f32 q6, q6, q5\n"
        "vmul.f32 q7, q7, q5\n"
        "vadd.f32 q0, q0, q6\n"
        "vldrw.32 q6, [r3, #32]\n"
        "vadd.f32 q1, q1, q7\n"
        "vldrw.32 q7, [r3, #48]\n"
        "vmul.f32 q6, q6, q5\n"
        "vmul.f32 q7, q7, q5\n"
        "vadd.f32 q2, q2, q6\n"
        "vldrw.32 q6, [r3, #64]\n"
        "vadd.f32 q3, q3, q7\n"
        "vmul.f32 q6, q6, q5\n"
        "vadd.f32 q4, q4, q6\n"
        "le lr, 1b\n"
        "ldrd r0, r1, [r12, #12]\n"
        "ldrd r3, r4, [r12, #24]\n"
        "vdup.32 q6, r3\n"
        "vdup.32 q5, r4\n"
        GE_MVE_FLOAT_CLAMP("q0", "q6", "q5")
        "vstrw.32 q0, [r0]\n"
        "add r0, r0, r1\n"
        GE_MVE_FLOAT_CLAMP("q1", "q6", "q5")
        "vstrw.32 q1, [r0]\n"
        "add r0, r0, r1\n"
        GE_MVE_FLOAT_CLAMP("q2", "q6", "q5")
        "vstrw.32 q2, [r0]\n"
        "add r0, r0, r1\n"
        GE_MVE_FLOAT_CLAMP("q3", "q6", "q5")
        "vstrw.32 q3, [r0]\n"
        "add r0, r0, r1\n"
        GE_MVE_FLOAT_CLAMP("q4", "q6", "q5")
        "vstrw.32 q4, [r0]\n"
        :
        : [job] "r"(job)
        : "r0", "r1", "r2", "r3", "r4", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
}

/* Copies `count` > 0 columns of four channels, or of `channels` if there are fewer: `step` bytes apart in `x`, 16 in
 * `to`. Returns the smaller of `least` and the least of them (ge_mve_float_least). */
static inline uint32_t depthwise_f32_mve_columns(float *to, const float *x, int32_t step, int32_t count, int32_t channels,
                                                 uint32_t least) {
    __asm__ volatile("mvn r3, #0\n"
                     "vmov.i32 q2, #2\n"
                     "vctp.32 %[channels]\n"
                     "dls lr, %[count]\n"
                     "1:\n"
                     "vpst\n"
                     "vldrwt.32 q0, [%[x]]\n"
                     "add %[x], %[x], %[step]\n"
                     "vstrw.32 q0, [%[to]], #16\n"
                     "vmlas.s32 q0, q2, r3\n"
                     "vminv.u32 %[least], q0\n"
                     "le lr, 1b\n"
                     : [to] "+&r"(to), [x] "+&r"(x), [least] "+&r"(least)
                     : [step] "r"(step), [count] "r"(count), [channels] "r"(channels)
                     : "r3", "lr", "q0", "q2", "memory");
    return least;
}

/* clang-format on */

/* State of one call. */
typedef struct {
    const ge_conv2d_f32_params *p;
    int32_t slots;   /* rows that a window spans */
    int32_t phase;   /* contiguous columns */
    int32_t four;    /* floats of a slot for four channels */
    int32_t row;     /* floats of a slot */
    uint32_t *least; /* the least number in each slot */
    int32_t *taps;   /* offsets of the taps for an output row */
    float *rows;     /* the slots */
    depthwise_f32_mve_job job;
} depthwise_f32_mve_call;

static inline int32_t depthwise_f32_mve_slot(const depthwise_f32_mve_call *c, int32_t iy) {
    return (iy + c->p->pad_top) % c->slots;
}

/* Copies input row iy into its slot. */
static GE_NOINLINE void depthwise_f32_mve_load(const depthwise_f32_mve_call *c, const ge_rows *x, int32_t iy) {
    const ge_conv2d_f32_params *const p = c->p;
    const int32_t slot = depthwise_f32_mve_slot(c, iy);
    const int32_t last = (p->out_w - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w - p->pad_left + 1;
    const int32_t right = last < p->in_w ? last : p->in_w;
    float *to = c->rows + slot * c->row;
    uint32_t least = GE_MVE_FLOAT_NONE;
    if (iy < 0 || iy >= p->in_h) {
        ge_mve_float_zeros(to, c->row);
        c->least[slot] = least;
        return;
    }
    const float *const row = (const float *)ge_row(x, iy);
    for (int32_t phase = 0; phase < p->stride_w; phase++) {
        const int32_t skip = p->pad_left > phase ? (p->pad_left - phase + p->stride_w - 1) / p->stride_w : 0;
        const int32_t ix = phase - p->pad_left + skip * p->stride_w;
        const int32_t count = (right - ix + p->stride_w - 1) / p->stride_w;
        float *at = to + 4 * (phase * c->phase + skip);
        for (int32_t ch = 0; ix < right && ch < p->in_c; ch += 4) {
            least = depthwise_f32_mve_columns(at, row + ix * p->in_c + ch, 4 * p->stride_w * p->in_c, count,
                                              p->in_c - ch, least);
            at += c->four;
        }
    }
    c->least[slot] = least;
}

/* Fills in the taps of output row y; returns whether one of its numbers is tiny. */
static GE_NOINLINE int32_t depthwise_f32_mve_taps(const depthwise_f32_mve_call *c, int32_t y) {
    const ge_conv2d_f32_params *const p = c->p;
    int32_t *tap = c->taps;
    int32_t tiny = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t slot = depthwise_f32_mve_slot(c, y * p->stride_h - p->pad_top + ky * p->dilation_h);
        tiny |= ge_mve_float_tiny(c->least[slot]);
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t column = kx * p->dilation_w;
            const int32_t place = column % p->stride_w * c->phase + column / p->stride_w;
            *tap++ = 4 * (slot * c->row + 4 * place);
        }
    }
    return tiny;
}

/* Computes the same as depthwise_f32_mve_five with scalar arithmetic, for any numbers. */
static GE_NOINLINE void depthwise_f32_mve_singly(const depthwise_f32_mve_job *job) {
    for (int32_t i = 0; i < 5; i++) {
        float *const o = job->out + i * job->step / 4;
        for (int32_t lane = 0; lane < 4; lane++) {
            float sum = job->stream[lane];
            for (int32_t tap = 0; tap < job->count; tap++) {
                sum += job->x[job->taps[tap] / 4 + 4 * i + lane] * job->stream[4 + 4 * tap + lane];
            }
            o[lane] = ge_clamp_f32(sum, job->lo, job->hi);
        }
    }
}

/* Computes five outputs through a buffer, of which `columns` by `channels` exist. */
static GE_NOINLINE void depthwise_f32_mve_some(depthwise_f32_mve_job *job, int32_t columns, int32_t channels,
                                               int32_t tiny) {
    float buffer[5][4];
    float *const out = job->out;
    const int32_t step = job->step;
    job->out = buffer[0];
    job->step = sizeof buffer[0];
    if (tiny) {
        depthwise_f32_mve_singly(job);
    } else {
        depthwise_f32_mve_five(job);
    }
    job->step = step;
    for (int32_t i = 0; i < columns; i++) {
        memcpy(out + i * step / 4, buffer[i], (size_t)channels * sizeof buffer[0][0]);
    }
}

/* Computes output row y in blocks of five columns, of which the last two may overlap. */
static GE_NOINLINE void depthwise_f32_mve_row(depthwise_f32_mve_call *c, float *out, const float *stream,
                                              int32_t tiny) {
    const ge_conv2d_f32_params *const p = c->p;
    const int32_t columns = p->out_w < 5 ? p->out_w : 5;
    const float *x = c->rows;
    depthwise_f32_mve_job *const job = &c->job;
    job->stream = stream;
    for (int32_t ch = 0; ch < p->in_c; ch += 4) {
        const int32_t channels = p->in_c - ch < 4 ? p->in_c - ch : 4;
        for (int32_t done = 0; done < p->out_w; done += 5) {
            const int32_t ox = done + columns <= p->out_w ? done : p->out_w - columns;
            job->x = x + 4 * ox;
            job->out = out + ox * p->out_c + ch;
            if (tiny || columns < 5 || channels < 4) {
                depthwise_f32_mve_some(job, columns, channels, tiny);
            } else {
                depthwise_f32_mve_five(job);
            }
        }
        job->stream += 4 + 4 * job->count;
        x += c->four;
    }
}

static void ge_depthwise_f32_mve(const ge_conv2d_f32_params *p, const ge_rows *x, const float *stream,
                                 const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch) {
    const int32_t count = p->kernel_h * p->kernel_w;
    const int32_t width = p->out_w < 5 ? 5 : p->out_w;
    depthwise_f32_mve_call c = {p,
                                (p->kernel_h - 1) * p->dilation_h + 1,
                                0,
                                0,
                                0,
                                NULL,
                                NULL,
                                (float *)scratch,
                                {NULL, NULL, NULL, NULL, 4 * p->out_c, count, p->lo, p->hi}};
    c.phase = width + (p->kernel_w - 1) * p->dilation_w / p->stride_w;
    c.four = 4 * p->stride_w * c.phase;
    c.row = (p->in_c + 3) / 4 * c.four;
    c.least = (uint32_t *)(void *)(c.rows + c.slots * c.row);
    c.taps = (int32_t *)(void *)(c.least + c.slots);
    c.job.taps = c.taps;
    ge_mve_float_zeros(c.rows, c.slots * c.row);
    int32_t next = first_row * p->stride_h - p->pad_top;
    for (int32_t y = first_row; y < last_row; y++) {
        const int32_t top = y * p->stride_h - p->pad_top;
        for (next = next < top ? top : next; next < top + c.slots; next++) {
            depthwise_f32_mve_load(&c, x, next);
        }
        const int32_t tiny = depthwise_f32_mve_taps(&c, y);
        depthwise_f32_mve_row(&c, (float *)ge_row(out, y), stream, tiny);
    }
}
