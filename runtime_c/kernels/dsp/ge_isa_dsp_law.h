/* Requantizes the sums of the kernels of Cortex-M4, M7 and M33 by the laws of other engines: parts of their loops.
 *
 * A kernel has the number of its law as a #define: 0 is the default one, whose code is in the kernel itself; for the
 * others it includes ge_isa_dsp_law_<law>.h. There, a sum is twice the accumulator, and the stream has three words for
 * each channel: the multiplier; the zero point and the half of the last shift, shifted up; the shifts.
 * glowembed/kernels/dsp/__init__.py makes them, and proves that accumulators are below 2^23 and that no intermediate
 * result exceeds 32 bits. The kernel saturates the outputs.
 *
 * Kernels that keep the words of a channel in their frame (KEPT) do so for the laws of Glow and TFLite.
 *
 * w: the register that points to the words of a channel, and is advanced past them; m, c, t: registers that are free,
 * and for the law of ONNX lr and the flags as well (m may be lr). */
#ifndef GE_ISA_DSP_LAW_H
#define GE_ISA_DSP_LAW_H

#define GE_DSP_LAW_PASTE(name, law) name##law
#define GE_DSP_LAW_OF(name, law) GE_DSP_LAW_PASTE(name, law)

/* Words of four channels in addition to weights: start values of the sums, and the law's words. */
#define GE_DSP_LAW_WORDS(law) ((law) == 0 ? 8 : 16)

/* One, two or three sums of a channel. */
#define GE_DSP_LAW_ONE(law, w, x, m, c, t)                                                                             \
    GE_DSP_LAW_OF(GE_DSP_LAW_LOAD_, law)(w, m, c, t) GE_DSP_LAW_OF(GE_DSP_LAW_FIRST_, law)(w, x, m, c, t)              \
        GE_DSP_LAW_OF(GE_DSP_LAW_SHIFT_, law)(w, m, t) GE_DSP_LAW_OF(GE_DSP_LAW_LAST_, law)(x, m)

#define GE_DSP_LAW_TWO(law, w, x, y, m, c, t)                                                                          \
    GE_DSP_LAW_OF(GE_DSP_LAW_LOAD_, law)(w, m, c, t) GE_DSP_LAW_OF(GE_DSP_LAW_FIRST_, law)(w, x, m, c, t)              \
        GE_DSP_LAW_OF(GE_DSP_LAW_FIRST_, law)(w, y, m, c, t) GE_DSP_LAW_OF(GE_DSP_LAW_SHIFT_, law)(w, m, t)            \
            GE_DSP_LAW_OF(GE_DSP_LAW_LAST_, law)(x, m) GE_DSP_LAW_OF(GE_DSP_LAW_LAST_, law)(y, m)

#define GE_DSP_LAW_THREE(law, w, x, y, z, m, c, t)                                                                     \
    GE_DSP_LAW_OF(GE_DSP_LAW_LOAD_, law)(w, m, c, t) GE_DSP_LAW_OF(GE_DSP_LAW_FIRST_, law)(w, x, m, c, t)              \
        GE_DSP_LAW_OF(GE_DSP_LAW_FIRST_, law)(w, y, m, c, t) GE_DSP_LAW_OF(GE_DSP_LAW_FIRST_, law)(w, z, m, c, t)      \
            GE_DSP_LAW_OF(GE_DSP_LAW_SHIFT_, law)(w, m, t) GE_DSP_LAW_OF(GE_DSP_LAW_LAST_, law)(x, m)                  \
                GE_DSP_LAW_OF(GE_DSP_LAW_LAST_, law)(y, m) GE_DSP_LAW_OF(GE_DSP_LAW_LAST_, law)(z, m)

/* One or two sums whose law words are words sm (multiplier), sc and ss (shifts) of the frame. */
#define GE_DSP_LAW_KEPT_ONE(law, x, m, t, sm, sc, ss) GE_DSP_LAW_OF(GE_DSP_LAW_KEPT_ONE_, law)(x, m, t, sm, sc, ss)
#define GE_DSP_LAW_KEPT_TWO(law, x, y, m, t, sm, sc, ss)                                                               \
    GE_DSP_LAW_OF(GE_DSP_LAW_KEPT_TWO_, law)(x, y, m, t, sm, sc, ss)

/* Code that the macros above seldom call; placed once after all of them that have the same w, c and t. */
#define GE_DSP_LAW_SELDOM(law, w, c, t) GE_DSP_LAW_OF(GE_DSP_LAW_SELDOM_, law)(w, c, t)

/* Further registers that are overwritten, to be appended to a list. */
#define GE_DSP_LAW_CHANGES(law) GE_DSP_LAW_OF(GE_DSP_LAW_CHANGES_, law)

/* Bytes of stack that the law takes, as a string. */
#define GE_DSP_LAW_STACK(law) GE_DSP_LAW_OF(GE_DSP_LAW_STACK_, law)

/* The default law. */
#define GE_DSP_LAW_LOAD_0(w, m, c, t) ""
#define GE_DSP_LAW_FIRST_0(w, x, m, c, t) ""
#define GE_DSP_LAW_SHIFT_0(w, m, t) ""
#define GE_DSP_LAW_LAST_0(x, m) ""
#define GE_DSP_LAW_KEPT_ONE_0(x, m, t, sm, sc, ss) ""
#define GE_DSP_LAW_KEPT_TWO_0(x, y, m, t, sm, sc, ss) ""
#define GE_DSP_LAW_SELDOM_0(w, c, t) ""
#define GE_DSP_LAW_CHANGES_0
#define GE_DSP_LAW_STACK_0 "0"

#endif
