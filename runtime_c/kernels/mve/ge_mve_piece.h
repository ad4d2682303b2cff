/* Copies windows that are not contiguous into contiguous pieces, for the Helium kernel of convolution. */
#ifndef GE_MVE_PIECE_H
#define GE_MVE_PIECE_H

#include "ge.h"
#include "ge_mve_taps.h"

/* Returns whether the rows of a 1x1 kernel form one long row. A block of pixels across a row border writes to row y + 1
 * while it reads row y. The distance between them in shared memory must be the same as within row y: no pixel of output
 * is longer than one of input. */
static GE_NOINLINE int32_t ge_mve_flat(const ge_conv2d_params *p, const ge_rows *x, const ge_rows *out,
                                       const ge_mve_taps *s) {
    return s->count == 1 && s->ring == NULL && p->pad_top == 0 && p->stride_h == 1 && p->stride_w == 1 &&
           p->in_h >= p->out_h && p->in_w == p->out_w && p->out_w >= 3 && p->out_c <= p->in_c && x->slots == NULL &&
           out->slots == NULL && x->stride == p->in_w * p->in_c && out->stride == p->out_w * p->out_c;
}

/* Copies `count` windows, the first one `offset` bytes right of column 0, each `step` bytes after the one before: `run`
 * bytes of every tap, rounded up to `window` bytes with the bytes that follow. */
static GE_NOINLINE void ge_mve_pieces(const ge_mve_taps *s, int32_t run, int32_t offset, int32_t step, int8_t *to,
                                      int32_t window, int32_t count) {
    const int32_t rest = window - s->count * run;
    if (run == 4) {
        __asm__ volatile("1:\n"
                         "mov r4, %[taps]\n"
                         "dls lr, %[tap_count]\n"
                         "2:\n"
                         "ldr r5, [r4], #4\n"
                         "ldr r5, [r5, %[offset]]\n"
                         "str r5, [%[to]], #4\n"
                         "le lr, 2b\n"
                         "add %[offset], %[offset], %[step]\n"
                         "add %[to], %[to], %[rest]\n"
                         "subs %[count], %[count], #1\n"
                         "bne 1b\n"
                         : [offset] "+&r"(offset), [to] "+&r"(to), [count] "+&r"(count)
                         : [taps] "r"(s->taps), [tap_count] "r"(s->count), [step] "r"(step), [rest] "r"(rest)
                         : "r4", "r5", "lr", "cc", "memory");
    } else if (run <= 16) {
        __asm__ volatile(
            "vctp.8 %[run]\n"
            "1:\n"
            "mov r4, %[taps]\n"
            "dls lr, %[tap_count]\n"
            "2:\n"
            "ldr r5, [r4], #4\n"
            "add r5, r5, %[offset]\n"
            "vpstt\n"
            "vldrbt.u8 q0, [r5]\n"
            "vstrbt.8 q0, [%[to]]\n"
            "add %[to], %[to], %[run]\n"
            "le lr, 2b\n"
            "add %[offset], %[offset], %[step]\n"
            "add %[to], %[to], %[rest]\n"
            "subs %[count], %[count], #1\n"
            "bne 1b\n"
            : [offset] "+&r"(offset), [to] "+&r"(to), [count] "+&r"(count)
            : [taps] "r"(s->taps), [tap_count] "r"(s->count), [run] "r"(run), [step] "r"(step), [rest] "r"(rest)
            : "r4", "r5", "lr", "q0", "cc", "memory");
    } else {
        __asm__ volatile(
            "1:\n"
            "mov r4, %[taps]\n"
            "2:\n"
            "ldr r5, [r4], #4\n"
            "add r5, r5, %[offset]\n"
            "mov r6, %[to]\n"
            "dlstp.8 lr, %[run]\n"
            "3:\n"
            "vldrb.8 q0, [r5], #16\n"
            "vstrb.8 q0, [r6], #16\n"
            "letp lr, 3b\n"
            "add %[to], %[to], %[run]\n"
            "cmp r4, %[end]\n"
            "bne 2b\n"
            "add %[offset], %[offset], %[step]\n"
            "add %[to], %[to], %[rest]\n"
            "subs %[count], %[count], #1\n"
            "bne 1b\n"
            : [offset] "+&r"(offset), [to] "+&r"(to), [count] "+&r"(count)
            : [taps] "r"(s->taps), [end] "r"(s->taps + s->count), [run] "r"(run), [step] "r"(step), [rest] "r"(rest)
            : "r4", "r5", "r6", "lr", "q0", "cc", "memory");
    }
}

#endif
