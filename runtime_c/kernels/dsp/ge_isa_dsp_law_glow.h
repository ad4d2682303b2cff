/* The law of Glow on Cortex-M4, M7 and M33 (ge_isa_dsp_law.h): shift, multiply, shift.
 *
 * Words: multiplier, (zero point << post) + half, (pre + 1) + 256 * post: a shift by a register takes its lowest byte. */
#ifndef GE_ISA_DSP_LAW_GLOW_H
#define GE_ISA_DSP_LAW_GLOW_H

#define GE_DSP_LAW_LOAD_2(w, m, c, t)                                                                                  \
    "    ldr.w " t ", [" w ", #8]\n"                                                                                   \
    "    ldr.w " m ", [" w "], #4\n"                                                                                   \
    "    ldr.w " c ", [" w "], #8\n"

#define GE_DSP_LAW_FIRST_2(w, x, m, c, t)                                                                              \
    "    asr.w " x ", " x ", " t "\n"                                                                                  \
    "    mla " x ", " x ", " m ", " c "\n"

#define GE_DSP_LAW_SHIFT_2(w, m, t) "    lsr.w " m ", " t ", #8\n"
#define GE_DSP_LAW_LAST_2(x, m) "    asr.w " x ", " x ", " m "\n"

#define GE_DSP_LAW_KEPT_ONE_2(x, m, t, sm, sc, ss)                                                                     \
    "    ldr.w " m ", [sp, #4*" ss "]\n"                                                                               \
    "    asr.w " x ", " x ", " m "\n"                                                                                  \
    "    ldr.w " m ", [sp, #4*" sm "]\n"                                                                               \
    "    ldr.w " t ", [sp, #4*" sc "]\n"                                                                               \
    "    mla " x ", " x ", " m ", " t "\n"                                                                             \
    "    ldr.w " m ", [sp, #4*" ss "]\n"                                                                               \
    "    lsr.w " m ", " m ", #8\n"                                                                                     \
    "    asr.w " x ", " x ", " m "\n"

#define GE_DSP_LAW_KEPT_TWO_2(x, y, m, t, sm, sc, ss)                                                                  \
    "    ldr.w " m ", [sp, #4*" ss "]\n"                                                                               \
    "    asr.w " x ", " x ", " m "\n"                                                                                  \
    "    asr.w " y ", " y ", " m "\n"                                                                                  \
    "    ldr.w " m ", [sp, #4*" sm "]\n"                                                                               \
    "    ldr.w " t ", [sp, #4*" sc "]\n"                                                                               \
    "    mla " x ", " x ", " m ", " t "\n"                                                                             \
    "    mla " y ", " y ", " m ", " t "\n"                                                                             \
    "    ldr.w " m ", [sp, #4*" ss "]\n"                                                                               \
    "    lsr.w " m ", " m ", #8\n"                                                                                     \
    "    asr.w " x ", " x ", " m "\n"                                                                                  \
    "    asr.w " y ", " y ", " m "\n"

#define GE_DSP_LAW_SELDOM_2(w, c, t) ""
#define GE_DSP_LAW_CHANGES_2
#define GE_DSP_LAW_STACK_2 "0"

#endif
