/* 1x1 convolution for Cortex-M4, M7 and M33: one loop for all numbers of channels.
 *
 * A list holds pixels as int16, pair by pair: word k of the first pixel, word k of the second, then the next words. So
 * the distances within a pair are the same for all shapes. The code has a loop of 16 steps and 15 more steps after it;
 * each shape enters where as many steps are left as it needs, and shapes of few steps enter after the loop. Cost: 15
 * cycles for 16 products, 58 per 8 outputs, 5 per iteration of the loop; 14 for 8 inputs. */
#ifndef GE_ISA_DSP_POINTS_H
#define GE_ISA_DSP_POINTS_H

#include "ge.h"
#include "ge_isa_dsp.h"
#include "ge_isa_dsp_frame.h"
#include "ge_isa_dsp_law.h"
#include "ge_isa_dsp_strip.h"
#include "ge_params.h"

#define GE_DSP_POINTS_BYTES 2048 /* bytes of a list, unless two pixels need more */
#define GE_DSP_POINTS_LOOP 16
#define GE_DSP_POINTS_BEHIND 15 /* steps after the loop */
#define GE_DSP_POINTS_STEP 56   /* bytes of code of a step */
#define GE_DSP_POINTS_TEST 12   /* bytes of code at the end of the loop */

/* Job of a loop of products; the order of its words is that of the frame. */
typedef struct {
    const uint32_t *x;
    int8_t *out;
    const uint32_t *x_end; /* end of the pairs of pixels */
    const uint32_t *w_end; /* end of the groups of four channels */
    const uint32_t *w;     /* as in ge_dsp_strip_job */
    int32_t zero_point;
    int32_t step;  /* bytes from a pixel's outputs to the next's; 0: a lone pixel is given twice */
    int32_t entry; /* bytes of code from the loop to the entry point */
    int32_t loop;  /* bytes of two pixels up to the end of the loop */
} ge_dsp_points_job;

/* The products for a law, and the most pixels that a list holds. */
typedef struct {
    void (*products)(const ge_dsp_points_job *job);
    int32_t tile;  /* even */
    int32_t words; /* words for four channels besides their weights */
} ge_dsp_points_kind;

/* clang-format off */

/* The body of a function that takes a const ge_dsp_points_job *. Operands: down, law. */
#define GE_DSP_POINTS(function, law) \
    "    .set ge_pixel, 4\n" \
    "    .set ge_next, 8\n" \
    "    .set ge_down, %c[down]\n" \
    "    .set ge_law, %c[law]\n" \
    GE_DSP_ENTER(function, law, "r1-r6, r8-r10") \
    "    adr.w r12, 3f\n" \
    "    add.w r9, r9, r12\n" \
    "    orr.w r9, r9, #1\n" \
    "    str.w r9, [sp, #4*7]\n" \
    "    add.w r8, r10, #8*15\n" /* two pixels */ \
    "    add.w r10, r10, r1\n" /* end of the loop */ \
    "    str.w r8, [sp, #4*8]\n" \
    "    str.w r10, [sp, #4*10]\n" \
    "    str.w r2, [sp, #4*12]\n" \
    "    mov.w r0, r5\n" \
    "    b.w 2f\n" \
    "    .balign 4\n" \
    "3:\n" \
    "    .rept 16\n" \
    GE_DSP_STRIP_STEP \
    "    .endr\n" \
    "    ldr.w r12, [sp, #4*10]\n" \
    "    cmp.w r1, r12\n" \
    "    bne.w 3b\n" \
    "    .rept 15\n" \
    GE_DSP_STRIP_STEP \
    "    .endr\n" \
    GE_DSP_STRIP_OUTPUTS(law) \
    "    beq.w 4f\n" \
    "2:\n" /* four channels, their weights at r0, the inputs of two pixels at r1 */ \
    GE_DSP_STRIP_FIRST \
    "    ldr.w pc, [sp, #4*7]\n" \
    "4:\n" /* the next two pixels */ \
    "    ldr.w r2, [sp, #4*1]\n" \
    "    ldr.w r3, [sp, #4*2]\n" \
    "    ldr.w r4, [sp, #4*8]\n" \
    "    ldr.w r5, [sp, #4*10]\n" \
    "    ldr.w r0, [sp, #4*4]\n" \
    "    add.w r2, r2, lr, lsl #1\n" \
    "    add.w r1, r1, r4\n" \
    "    add.w r5, r5, r4\n" \
    "    str.w r2, [sp, #4*1]\n" \
    "    str.w r2, [sp, #4*12]\n" \
    "    str.w r1, [sp, #4*0]\n" \
    "    str.w r5, [sp, #4*10]\n" \
    "    cmp.w r1, r3\n" \
    "    bne.w 2b\n" \
    GE_DSP_LEAVE
/* clang-format on */

#define GE_DSP_POINTS_CHANGES(law)                                                                                     \
    "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory" GE_DSP_LAW_CHANGES(law)

/* The products of the default law for a shift of 32. */
__attribute__((unused, noinline)) static void ge_dsp_points_products(const ge_dsp_points_job *job) {
    register const ge_dsp_points_job *r0 __asm__("r0") = job;
    __asm__ volatile(GE_DSP_POINTS(ge_dsp_points_products, 0)
                     : "+r"(r0)
                     : [down] "i"(8), [law] "i"(0)
                     : GE_DSP_POINTS_CHANGES(0));
}

/* Expands four channels of two pixels. */
#define GE_DSP_POINTS_FOUR                                                                                             \
    "    ldr.w %[a], [%[x]], #4\n"                                                                                     \
    "    ldr.w %[b], [%[next]], #4\n"                                                                                  \
    "    sxtb16 %[t], %[a]\n"                                                                                          \
    "    sxtb16 %[a], %[a], ror #8\n"                                                                                  \
    "    sxtb16 %[u], %[b]\n"                                                                                          \
    "    sxtb16 %[b], %[b], ror #8\n"                                                                                  \
    "    str.w %[u], [%[to], #4]\n"                                                                                    \
    "    str.w %[a], [%[to], #8]\n"                                                                                    \
    "    str.w %[b], [%[to], #12]\n"                                                                                   \
    "    str.w %[t], [%[to]], #16\n"

/* Expands `fours` times four channels of `pairs` pairs of pixels, the second of which are at `next`; `gap`: bytes from
 * the end of a pixel to the pixel after the next. Cost: 25 cycles for 8 channels of two pixels. */
static inline void ge_dsp_points_expand(const int8_t *x, const int8_t *next, int32_t fours, int32_t pairs, int32_t gap,
                                        uint32_t *to) {
    uint32_t a, b, t, u, n;
    __asm__ volatile("    .balign 4\n"
                     "1:\n"
                     "    adds.w %[n], %[fours], #1\n"
                     "    lsrs.w %[n], %[n], #1\n"
                     "    bcc.w 3f\n" /* an odd number enters in the middle */
                     "2:\n" GE_DSP_POINTS_FOUR "3:\n"
                     "    subs.w %[n], %[n], #1\n" GE_DSP_POINTS_FOUR "    bne.w 2b\n"
                     "    subs.w %[pairs], %[pairs], #1\n"
                     "    add.w %[x], %[x], %[gap]\n"
                     "    add.w %[next], %[next], %[gap]\n"
                     "    bne.w 1b\n"
                     : [x] "+&r"(x), [next] "+&r"(next), [to] "+&r"(to), [pairs] "+&r"(pairs), [n] "=&r"(n),
                       [a] "=&r"(a), [b] "=&r"(b), [t] "=&r"(t), [u] "=&r"(u)
                     : [fours] "r"(fours), [gap] "r"(gap)
                     : "cc", "memory");
}

/* Expands two pixels of any number of channels. The second half of the last word of an odd number is not written: it is
 * multiplied by weights of 0. */
__attribute__((unused, noinline)) static void ge_dsp_points_two(const int8_t *x, const int8_t *next, int32_t channels,
                                                                uint32_t *to) {
    const int32_t fours = channels >> 2;
    int16_t *const halves = (int16_t *)(void *)to;
    if (fours > 0) {
        ge_dsp_points_expand(x, next, fours, 1, 0, to);
    }
    for (int32_t c = fours * 4; c < channels; c++) {
        const int32_t at = (c >> 1) * 4 + (c & 1);
        halves[at] = x[c];
        halves[at + 2] = next[c];
    }
}

/* Expands `count` pixels from `x` on, `step` bytes apart. */
__attribute__((unused, noinline)) static void ge_dsp_points_list(const int8_t *x, int32_t step, int32_t channels,
                                                                 int32_t count, uint32_t *to) {
    const int32_t words = (channels + 1) & ~1;
    if ((channels & 3) == 0 && count > 1) {
        ge_dsp_points_expand(x, x + step, channels >> 2, count >> 1, 2 * step - channels, to);
        x += (count & ~1) * step;
        to += (count >> 1) * words;
        count &= 1;
    }
    for (; count > 0; count -= 2) {
        ge_dsp_points_two(x, count > 1 ? x + step : x, channels, to);
        x += 2 * step;
        to += words;
    }
}

/* Sets the parts of the job that depend only on the number of channels. */
static inline void ge_dsp_points_enter(int32_t channels, ge_dsp_points_job *job) {
    const int32_t more = ((channels + 1) >> 1) - 1 - GE_DSP_POINTS_BEHIND;
    const int32_t skipped = more > 0 ? -more & (GE_DSP_POINTS_LOOP - 1) : GE_DSP_POINTS_LOOP - more;
    job->entry = skipped * GE_DSP_POINTS_STEP + (more > 0 ? 0 : GE_DSP_POINTS_TEST);
    job->loop = 8 * (more + 1);
}

/* Returns the most pixels in a list. */
static inline int32_t ge_dsp_points_tile(int32_t channels, int32_t most) {
    const int32_t tile = GE_DSP_POINTS_BYTES / (4 * ((channels + 1) >> 1)) & ~1;
    return tile < 2 ? 2 : (tile > most ? most : tile);
}

/* Computes all channels of `pairs` pairs of pixels, whose outputs are `step` bytes apart. */
__attribute__((unused, noinline)) static void ge_dsp_points_pairs(const ge_conv2d_params *p,
                                                                  const ge_dsp_points_kind *kind,
                                                                  ge_dsp_points_job *job, int32_t pairs, int32_t step) {
    const uint32_t *const w = job->w;
    const int32_t pair = (p->in_c + 1) & ~1;
    const int32_t words = pair + kind->words;
    const int32_t rest = p->out_c & 3;
    job->step = step;
    job->x_end = job->x + pairs * pair;
    if (rest != 0) {
        job->w_end = w + words;
        kind->products(job);
        job->w = job->w_end;
        job->out += rest;
    }
    job->w_end = job->w + (p->out_c >> 2) * words;
    kind->products(job);
    job->w = w;
}

/* Computes all output rows, a list of pixels at a time, across row ends where rows are contiguous. */
__attribute__((unused, noinline)) static void ge_dsp_points(const ge_conv2d_params *p, const ge_rows *x,
                                                            const uint32_t *stream, const ge_rows *out, int32_t first,
                                                            int32_t last, uint32_t *list,
                                                            const ge_dsp_points_kind *kind) {
    const int32_t step = p->stride_w * p->in_c;
    const int32_t together = x->slots == NULL && out->slots == NULL && x->stride * p->stride_h == p->out_w * step &&
                             out->stride == p->out_w * p->out_c;
    const int32_t pixels = together ? (last - first) * p->out_w : p->out_w;
    const int32_t tile = ge_dsp_points_tile(p->in_c, kind->tile);
    ge_dsp_points_job job = {NULL, NULL, NULL, NULL, stream, p->out_zero_point, 0, 0, 0};
    ge_dsp_points_enter(p->in_c, &job);
    for (int32_t y = first; y < last; y = together ? last : y + 1) {
        const int8_t *from = (const int8_t *)ge_row(x, y * p->stride_h);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t done = 0; done < pixels; done += tile) {
            const int32_t count = pixels - done < tile ? pixels - done : tile;
            ge_dsp_points_list(from, step, p->in_c, count, list);
            job.x = list;
            job.out = o;
            if (count > 1) {
                ge_dsp_points_pairs(p, kind, &job, count >> 1, p->out_c);
            }
            if ((count & 1) != 0) {
                job.x = list + (count >> 1) * ((p->in_c + 1) & ~1);
                job.out = o + (count - 1) * p->out_c;
                ge_dsp_points_pairs(p, kind, &job, 1, 0);
            }
            if (p->lo > INT8_MIN || p->hi < INT8_MAX) {
                ge_dsp_clamp(o, count * p->out_c, p->lo, p->hi);
            }
            from += count * step;
            o += count * p->out_c;
        }
    }
}

#endif
